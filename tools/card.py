"""Write the model card of a training run: Markdown with Hugging Face metadata.

    python tools/card.py runs/mine --results results/ --out runs/mine/model/README.md

Figures come from plan.json, summary.json and environment.json of the run, config.json and weight headers of the model,
and output of `baleen eval --json`.  Text and tables are in card.md.jinja.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from math import prod
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from huggingface_hub import ModelCard, ModelCardData
from jinja2 import Environment
from safetensors import SafetensorError, safe_open

from baleen.core import files
from baleen.core.errors import BaleenError, CheckpointError, ConfigError, DatasetError, TrainingError
from baleen.evaluation.datasets import DATASETS
from baleen.evaluation.results import model_digest
from baleen.evaluation.statistics import Summary
from baleen.evaluation.tables import RunSummary, columns, hop_numbers, hops_table, runs_table
from baleen.models.folder import COMPONENTS, ModelFolder, read_model

Json = Mapping[str, Any]
TEMPLATE = Path(__file__).with_name("card.md.jinja")
SIGNED = "Written by `tools/card.py`"
BACKBONES = {  # name on the Hugging Face hub -> licence; all were pretrained on English text
    "BAAI/bge-small-en-v1.5": "MIT",
    "answerdotai/answerai-colbert-small-v1": "Apache-2.0",
    "cross-encoder/ms-marco-MiniLM-L-12-v2": "Apache-2.0",
    "sentence-transformers/all-MiniLM-L6-v2": "Apache-2.0",
    "google-bert/bert-base-uncased": "Apache-2.0",
    "google/electra-base-discriminator": "Apache-2.0",
    "google/electra-large-discriminator": "Apache-2.0",
}
TITLES = {name: dataset.title for name, dataset in DATASETS.items()}
TAGS = {"verifier": "fact-checking", "answerer": "question-answering", "reranker": "reranking"}
RESULT_KEYS = {"dataset": str, "file": str, "passages": int, "questions": int, "metrics": dict, "run": dict}
NOT_CONDITIONS = ("command", "dataset", "model", "index", "passages")  # keys of `run` in a results file
WRITER = {TrainingError: "`baleen train`", CheckpointError: "`baleen train`", DatasetError: "`baleen eval --json`"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print or write a card; return the exit code."""
    parser = argparse.ArgumentParser(description="Write the model card of a training run.")
    option = parser.add_argument
    option("run", type=Path, help="folder of a finished `baleen train` run")
    option("--results", type=Path, action="append", default=[], help="`baleen eval --json` output: file or folder")
    option("--out", type=Path, help="file to write, such as README.md (default: print)")
    option("--model", type=Path, help="model folder (default: RUN/model)")
    option("--name", help="name of the model (default: name of the --model folder, or of RUN)")
    option("--license", help="licence of the weights (default: mit if all backbones are known, else other)")
    given = parser.parse_args(arguments)
    try:
        text = make_card(given.run, given.results, given.model, given.name, given.license)
        write_card(text, given.out) if given.out else print(text, end="")
    except BaleenError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def make_card(
    root: Path,
    results: Iterable[Path] = (),
    model: Path | None = None,
    name: str | None = None,
    licence: str | None = None,
) -> str:
    """Return the card of the run in `root`; `model` replaces the run's own model."""
    plan, summary, environments = read_run(root)
    found = read_model(model or root / "model")
    sources, weights = list(data_files(plan, summary)), list(read_weights(found))
    evaluations = sorted(read_results(results, model_digest(found)), key=questions_of)
    ready, retriever_bases = plan["retriever"].get("ready"), bases_of_retriever(found)
    starts = [part["backbone"] for part in (plan["retriever"], plan.get("reading") or {}) if part.get("backbone")]
    made_from = [*((retriever_bases or [ready]) if ready else []), *starts]
    hubs = {each: hub_name(each) for each in made_from}
    licence = licence or ("mit" if all(hubs.values()) else "other")
    trained_on = {each["dataset"] for each in sources if each["train"]}
    datasets = [dataset for name, dataset in DATASETS.items() if name in trained_on and dataset.license]
    metadata = ModelCardData(
        license=licence,
        language="en" if all(hubs.values()) else None,
        library_name="baleen",
        tags=["multi-hop", "retrieval", "late-interaction", *(TAGS[each] for each in TAGS if each in found)],
        base_model=[hub for hub in hubs.values() if hub] or None,
        datasets=[dataset.hub for dataset in datasets if dataset.hub] or None,
    )
    environment = Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"short": short_path, "number": number, "time": time}
    text = environment.from_string(TEMPLATE.read_text("utf-8")).render(
        name=name or (model or root).resolve().name,
        model=found,
        purposes=COMPONENTS,
        weights=weights,
        holds_index=any(found.root.glob("*/manifest.json")),
        plan=plan,
        counts=summary.get("data", {}),
        stages={stage: report for stage, report in summary["stages"].items() if report is not None},
        environments=environments,
        files=sources,
        starts=[Path(each).name for each in dict.fromkeys(starts)],
        retriever_card=retriever_bases is not None,
        results=[(*key, list(group)) for key, group in groupby(evaluations, questions_of)],
        tables={"columns": columns, "runs": runs_table, "hops": hops_table, "hop_numbers": hop_numbers},
        licence={"mit": "MIT", "other": "not settled"}.get(licence, licence),
        origins={
            hub or (short_path(each) if each == ready else Path(each).name): BACKBONES.get(hub or "")
            for each, hub in hubs.items()
        },
        english=all(hubs.values()),
        datasets=datasets,
        titles=TITLES,
        signed=SIGNED,
    )
    return f"---\n{metadata.to_yaml()}\n---\n\n{text}\n"


def write_card(text: str, file: Path) -> None:
    """Write a card over an older card, but over nothing else."""
    if file.is_dir() or not file.parent.is_dir():
        raise ConfigError(f"{file}: expected a file name in an existing folder, such as README.md")
    if file.exists() and SIGNED not in file.read_text("utf-8", errors="replace"):
        raise ConfigError(f"{file}: exists and is not a card of this script; choose another --out or remove it")
    with files.replacing(file) as aside:
        aside.write_text(text, "utf-8")


def short_path(path: str) -> str:
    """Return the last folder and the file name."""
    return "/".join(part for part in Path(path).parts[-2:] if part not in ("/", "..", "."))


def time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def number(value: float | None, form: str = ",") -> str:
    return format(value, form) if isinstance(value, int | float) else "-"


def hub_name(backbone: str) -> str | None:
    return next((hub for hub in BACKBONES if Path(hub).name == Path(backbone).name), None)


def read_object(file: Path, error: type[BaleenError], /, **keys: type) -> dict[str, Any]:
    """Read a JSON object that has `keys` of the given types."""
    try:
        return check_object(json.loads(file.read_text("utf-8")), file, error, **keys)
    except OSError as fault:
        raise error(f"{file}: cannot be read: {(fault.strerror or str(fault)).lower()}") from None
    except (ValueError, RecursionError):
        raise error(f"{file}: not valid JSON; expected what {WRITER[error]} writes") from None


def check_object(found: Any, file: Path, error: type[BaleenError], /, **keys: type) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise error(f"{file}: expected a JSON object as {WRITER[error]} writes it")
    for key, kind in keys.items():
        if not isinstance(found.get(key), kind):
            raise error(f"{file}: '{key}' is missing or malformed; expected what {WRITER[error]} writes")
    return found


def read_run(root: Path) -> tuple[Json, Json, Sequence[Json]]:
    """Return plan, summary and environments of a finished run; anything else is a TrainingError."""
    file, last, environment = (root / f"{name}.json" for name in ("plan", "summary", "environment"))
    if not file.is_file():
        raise TrainingError(f"{root}: no plan.json; expected the folder of a `baleen train` run")
    if not last.is_file():
        done = len(list(root.glob("*/done.json")))
        raise TrainingError(
            f"{root}: the run is not finished ({done} stages done); start `baleen train` again to continue it"
        )
    plan = read_object(file, TrainingError, collections=list, retriever=dict)
    start = "ready" if "ready" in plan["retriever"] else "backbone"
    check_object(plan["retriever"], file, TrainingError, **{start: str})
    for collection in plan["collections"]:
        check_object(collection, file, TrainingError, name=str, corpus=list)
        for each in (*collection.get("train", []), *collection.get("dev", [])):
            check_object(each, file, TrainingError, dataset=str, file=str)
    summary = read_object(last, TrainingError, stages=dict)
    if not environment.is_file():
        return plan, summary, []
    return plan, summary, read_object(environment, TrainingError, environments=list)["environments"]


def data_files(plan: Json, summary: Json) -> Iterator[Json]:
    """Yield the question files of a plan, each with its kind and its number of usable questions."""
    for part in ("train", "dev"):
        for collection in plan["collections"]:
            sources = [(each, part == "dev" or each.get("searched", True)) for each in collection.get(part, [])]
            counted_together = Counter((each["dataset"], searched) for each, searched in sources)
            for each, searched in sources:
                counts = summary.get("data", {}).get(collection["name"], {}).get(part if searched else "read")
                name = f"{collection['name']} {Path(each['file']).name}".lower()
                yield {
                    **each,
                    "file": short_path(each["file"]),
                    "stem": short_path(each["file"]).removesuffix(".gz"),
                    "train": part == "train",
                    "searched": searched,
                    "kind": "synthetic" if "synth" in name else "restated" if "restate" in name else TITLES.get(each["dataset"], each["dataset"]),
                    "questions": None if counts is None else counts.get(each["dataset"], 0),
                    "shared": counted_together[each["dataset"], searched] > 1,
                }  # fmt: skip


def read_weights(model: ModelFolder) -> Iterator[Json]:
    """Yield the checkpoints of a model with parameters, types and size on disk; only headers are read."""
    for folder in dict.fromkeys(model.components.values()):
        place = model.root / folder
        config, backbone = (read_object(place / f"{name}.json", CheckpointError) for name in ("config", "backbone"))
        try:
            base = config["base"]["folder"] if "base" in config else None
            parts = config.get("notes", {}).get("averaged", [])
            averaged = [(float(part["share"]), part["weights_sha256"][:12]) for part in parts]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise CheckpointError(f"{place / 'config.json'}: 'base' or 'averaged' is malformed") from None
        parameters, types = tensor_sizes(place / "model.safetensors")
        size = sum(file.stat().st_size for file in place.iterdir() if file.suffix in (".json", ".safetensors"))
        yield {
            "folder": folder, "base": base, "averaged": averaged, "backbone": backbone,
            "parameters": parameters, "types": types, "bytes": size,
        }  # fmt: skip


def tensor_sizes(file: Path) -> tuple[int, list[str]]:
    """Return the number of parameters in a safetensors file, and their types."""
    if not file.is_file():
        raise CheckpointError(f"{file}: no such file; the checkpoint is incomplete")
    try:
        with safe_open(file, framework="numpy") as tensors:
            found = [tensors.get_slice(name) for name in tensors.keys()]  # noqa: SIM118
            return sum(prod(each.get_shape()) for each in found), sorted({each.get_dtype() for each in found})
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{file}: truncated or not a safetensors file: {error}") from None


def bases_of_retriever(model: ModelFolder) -> list[str] | None:
    """Return `base_model` of the card in the retriever's folder; None without such a card."""
    folder = model.components.get("retriever", ".")
    file = model.root / folder / "README.md"
    if folder == "." or not file.is_file():
        return None
    try:
        named = ModelCard.load(file, ignore_metadata_errors=True).data.base_model or []
    except (ValueError, yaml.YAMLError):
        raise CheckpointError(f"{file}: the metadata block is not valid YAML") from None
    return [named] if isinstance(named, str) else list(named)


def read_results(places: Iterable[Path], digest: str) -> Iterator[Json]:
    """Read results from files and folders; results of a system on another model are a DatasetError."""
    for file in dict.fromkeys(file for place in places for file in result_files(place)):
        found = read_object(file, DatasetError, **RESULT_KEYS)
        run = found["run"]
        if "pipeline" in run and run.get("system") == run["pipeline"] and run.get("model") != digest:
            raise DatasetError(
                f"{file}: results of model {run.get('model')}, but this card is of model {digest} (weights and settings "
                "count); evaluate this model, or name the folder of the other with --model"
            )
        try:
            hops = {int(count): read_summary(group) for count, group in found.get("by_hops", {}).items()}
            summary = RunSummary(file.stem, read_summary(found), hops)
            dropped = len(found.get("gold", {}).get("dropped", ()))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise DatasetError(f"{file}: malformed figures; expected what `baleen eval --json` writes") from None
        conditions = {key: value for key, value in run.items() if key not in NOT_CONDITIONS}
        yield {**found, "file": short_path(found["file"]), "summary": summary, "run": conditions, "dropped": dropped}


def result_files(place: Path) -> list[Path]:
    """Return a file itself, or the results in a folder; other JSON files there are skipped with a warning."""
    if not place.is_dir():
        return [place]
    found = []
    for file in sorted(place.glob("*.json")):
        try:
            read_object(file, DatasetError, **RESULT_KEYS)
            found.append(file)
        except DatasetError as error:
            print(f"skipped {error}", file=sys.stderr)
    if not found:
        raise DatasetError(f"{place}: no results in this folder; expected .json files of `baleen eval --json`")
    return found


def read_summary(found: Json) -> Summary:
    return Summary.from_json({key: found[key] for key in ("questions", "metrics", "intervals", "counts")})


def questions_of(evaluation: Json) -> tuple[str, str, int]:
    """Return what evaluations with comparable figures share: dataset, file and number of passages."""
    return evaluation["dataset"], evaluation["file"], evaluation["passages"]


if __name__ == "__main__":
    sys.exit(main())
