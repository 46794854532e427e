"""Options that several commands share, each defined once, in groups that `grouped` makes options of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_type_hints

import typer

from baleen.core.config import override
from baleen.core.errors import ConfigError
from baleen.core.types import RankedBy
from baleen.hops.config import Pipeline, RunConfig, RunOptions

if TYPE_CHECKING:
    from baleen.system import Baleen

PrecisionName = Literal["float32", "bfloat16", "int8"]  # models.device.Precision, without importing torch
HOPS = "Hops"  # panels of --help
FILES = "Files"

ModelOption = Annotated[
    str | None, typer.Option("--model", help="Model folder or name.", show_default="the shipped one")
]
IndexOption = Annotated[
    Path | None, typer.Option("--index", help="Index folder.", show_default="the demonstration corpus")
]
DeviceOption = Annotated[str | None, typer.Option("--device", help="cpu or cuda.", show_default="the best available")]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", min=1, help="CPU threads of a search.", show_default="all cores")
]
PrecisionOption = Annotated[
    PrecisionName | None,
    typer.Option(
        "--precision",
        help="Arithmetic of the models; int8 on a CPU only.",
        show_default="bfloat16 where the device has it, else float32",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace an existing model.")]
SkipBadOption = Annotated[bool, typer.Option("--skip-bad", help="Skip and count passages that cannot be read.")]
CollectionOutOption = Annotated[Path, typer.Option("--out", help="File to write: .jsonl, .jsonl.gz or .jsonl.zst.")]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter of a command whose type is a dataclass by one option per field.

    The fields are annotated as Typer's parameters are.  A group refuses bad values when it is built, so before the
    command runs.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: each.annotation for name, each in signature.parameters.items() if is_dataclass(each.annotation)
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if name in groups:
            parameters += _parameters(groups[name])
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def run(**given: Any) -> None:
        built = {
            name: group(**{field.name: given.pop(field.name, field.default) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **built)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(group)
    ]


@dataclass(frozen=True)
class SystemOptions:
    """The model, the index, and the arithmetic."""

    model: ModelOption = None
    index: IndexOption = None
    device: DeviceOption = None
    threads: ThreadsOption = None
    precision: PrecisionOption = None

    def load(self) -> Baleen:
        """Load the model over the index."""
        from baleen.system import Baleen

        return Baleen.load(self.model, self.index, device=self.device, threads=self.threads, precision=self.precision)


@dataclass(frozen=True)
class HopOptions:
    """One option per field of RunConfig; None keeps the model's setting."""

    pipeline: Annotated[
        Pipeline | None,
        typer.Option(
            help="How the passages of a hop are read: by condenser, by reranker, or by both.",
            show_default="the model's, or condense",
            rich_help_panel=HOPS,
        ),
    ] = None
    hops: Annotated[
        int | None,
        typer.Option(min=1, help="Number of hops.", show_default="the model's, or 4", rich_help_panel=HOPS),
    ] = None
    k: Annotated[
        str | None,
        typer.Option(
            "-k",
            metavar="N[,N...]",
            help="Passages to retrieve per hop: one number, or one per hop (10,10,20).",
            show_default="the model's, or 25; of the demonstration corpus at most 10",
            rich_help_panel=HOPS,
        ),
    ] = None
    stop_early: Annotated[
        bool | None,
        typer.Option(
            "--stop-early/--no-stop-early",
            help="Stop after the first hop that adds no fact.",
            show_default="the model's, or no",
            rich_help_panel=HOPS,
        ),
    ] = None
    untrained: Annotated[
        bool | None,
        typer.Option(
            "--untrained/--no-untrained",
            help="Use reranker scores instead of a trained condenser; skip a missing reader.",
            show_default="the model's, or no",
            rich_help_panel=HOPS,
        ),
    ] = None
    ranked_by: Annotated[
        RankedBy | None,
        typer.Option(
            help="Order of the passages of all hops: facts first, then by hop and rank (hops), "
            "or by the best sentence of each (evidence).",
            show_default="the model's, or hops",
            rich_help_panel=HOPS,
        ),
    ] = None
    mention_boost: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Score added to passages mentioned by title in the claim or its evidence (0 = off).",
            show_default="the model's, or 0",
            rich_help_panel=HOPS,
        ),
    ] = None
    keep: Annotated[
        float | None,
        typer.Option(
            help="Minimum fact score to stay in the query.",
            show_default="the model's, or the lowest given, or 0",
            rich_help_panel=HOPS,
        ),
    ] = None
    read: Annotated[
        float | None,
        typer.Option(
            help="Minimum fact score to reach the reader.",
            show_default="the model's, or that of --final",
            rich_help_panel=HOPS,
        ),
    ] = None
    final: Annotated[
        float | None,
        typer.Option(
            help="Minimum fact score to be reported.",
            show_default="the model's, or the highest given, or 0",
            rich_help_panel=HOPS,
        ),
    ] = None

    def __post_init__(self) -> None:
        override(RunConfig(), **self.settings)

    @property
    def settings(self) -> RunOptions:
        """The given options, as a run takes them."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.k is not None:
            values["k"] = _depths(self.k)
        return cast("RunOptions", {name: value for name, value in values.items() if value is not None})


def _depths(k: str) -> int | tuple[int, ...]:
    """Parse -k: one number, or several separated by commas."""
    try:
        depths = tuple(int(number) for number in k.split(","))
    except ValueError:
        raise typer.BadParameter(f"-k {k}: should be a number, or several separated by commas") from None
    if min(depths) < 1:
        raise typer.BadParameter(f"-k {k}: should be at least 1")
    return depths if "," in k else depths[0]


def refuse_existing_model(out: Path, overwrite: bool) -> None:
    """Refuse to replace a model without --overwrite."""
    if not overwrite and (out / "config.json").is_file():
        raise ConfigError(f"{out}: there is a model here already; choose another --out, or replace it with --overwrite")


def check_parent(path: Path | None, option: str = "") -> None:
    """Refuse a path to write whose folder is missing."""
    if path is not None and not path.parent.is_dir():
        raise typer.BadParameter(f"{option} {path}: there is no folder {path.parent}".lstrip())
