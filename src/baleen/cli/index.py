"""`baleen index` and `baleen split`: from collections to an index, or to one collection of sentences."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baleen.cli.options import DeviceOption, JsonOption, ModelOption, PrecisionName, PrecisionOption
from baleen.cli.show import print_report

if TYPE_CHECKING:
    from baleen.core.types import Passage
    from baleen.index.index import Index
    from baleen.models.encoder import Encoder


class Bits(StrEnum):
    one, two, four, sixteen = "1", "2", "4", "16"


def index(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Collections: JSONL (.gz, .zst), BEIR or HotPotQA folders, text")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The index's folder")] = Path("baleen.index"),
    model: ModelOption = None,
    bits: Annotated[
        Bits | None,
        typer.Option(help="Bits a dimension of what centroids leave over; 16: float16 vectors", show_default="2"),
    ] = None,
    add: Annotated[
        bool,
        typer.Option(
            "--add",
            help="Add to the index; passages take the place of those with their ids, and a file of text that of all from one of its name",
        ),
    ] = False,
    delete: Annotated[
        list[str] | None, typer.Option("--delete", metavar="ID", help="Delete a passage (repeatable)")
    ] = None,
    compact: Annotated[bool, typer.Option("--compact", help="Merge segments and free what was deleted")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Check every file against its checksum")] = False,
    info: Annotated[bool, typer.Option("--info", help="Only describe the index")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an index that is there already")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out passages that cannot be read, and count them")
    ] = False,
    cells: Annotated[
        int | None, typer.Option(min=1, help="Number of centroids", show_default="by the number of vectors")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the sample that centroids are fitted on", show_default="0")
    ] = None,
    device: DeviceOption = None,
    precision: PrecisionOption = None,
    as_json: JsonOption = False,
) -> None:
    """Build an index of FILES, or change, check or describe one."""
    from baleen.index.index import Index

    changes = bool(delete) + compact + verify + info
    if bool(files) == bool(changes) or changes > 1:
        raise typer.BadParameter("give files to index, or one of --delete, --compact, --verify, --info")
    fitting: dict[str, object] = {"--bits": bits, "--cells": cells, "--seed": seed, "--overwrite": overwrite}
    reading: dict[str, object] = {
        "--add": add,
        "--model": model,
        "--skip-bad": skip_bad,
        "--device": device,
        "--precision": precision,
    }
    if changes:
        _refuse(fitting | reading, "are for files to index, and none are given")
    if add:
        _refuse(fitting, "are for a new index, and --add keeps to the settings of the one that is there")
    report: dict[str, Any] = {}
    if files:
        report = _index_files(files, out, model, bits, add, overwrite, skip_bad, cells, seed, device, precision)
    else:
        opened = Index.open(out)
        if delete:
            report["removed"] = opened.delete(delete)
        elif compact:
            report["bytes_freed"] = opened.compact()
        elif verify:
            report["files_verified"] = opened.verify()
    print_report(report | Index.open(out).info(), as_json)


def _refuse(options: Mapping[str, object], why: str) -> None:
    """A usage error that names the options which were given, where they would do nothing."""
    given = [name for name, value in options.items() if value is not None and value is not False]
    if given:
        raise typer.BadParameter(f"leave out {', '.join(given)}: such options {why}")


def _index_files(
    files: list[Path],
    out: Path,
    model: str | None,
    bits: Bits | None,
    add: bool,
    overwrite: bool,
    skip_bad: bool,
    cells: int | None,
    seed: int | None,
    device: str | None,
    precision: PrecisionName | None,
) -> dict[str, Any]:
    from baleen.data.corpus import Tally
    from baleen.data.corpus import estimate_count as expected
    from baleen.data.corpus import read_passages as read
    from baleen.hops.demo import default_model
    from baleen.index.index import Index
    from baleen.index.writer import refuse_existing
    from baleen.models.encoder import Encoder

    if not add:
        refuse_existing(out, overwrite)  # before the time that loading a model takes
    tally = Tally()
    passages = read(files, skip_bad=skip_bad, tally=tally)
    opened = Index.open(out) if add else None
    encoder = Encoder.load(model or default_model(), device=device, precision=precision)
    total = expected(files) if sys.stderr.isatty() else None
    start = time.perf_counter()
    changed: dict[str, int] = {}
    if opened is not None:
        changed = _add(opened, files, passages, encoder, total)
    else:
        Index.build(
            out,
            passages,
            encoder,
            bits=int(bits or Bits.two),
            cells=cells,
            seed=seed or 0,
            overwrite=overwrite,
            total=total,
            device=str(encoder.device),
        )
    seconds = time.perf_counter() - start
    return {
        "indexed": tally.passages,
        "skipped": tally.bad,
        **changed,
        "seconds": round(seconds, 2),
        "passages_per_second": round(tally.passages / seconds, 1),
    }


def _add(
    index: Index, files: list[Path], passages: Iterable[Passage], encoder: Encoder, total: int | None
) -> dict[str, int]:
    """Add them; a file of text, which is cut into passages, takes the place of all that was there of it."""
    from baleen.data.corpus import text_file_names as text_names
    from baleen.data.textfiles import source_file as file_of

    names = text_names(files)

    def text_file(pid: str) -> str | None:
        return name if (name := file_of(pid)) in names else None

    done = index.update(passages, encoder, part_of=text_file, total=total, device=str(encoder.device))
    return {"replaced": done.replaced, "outdated": done.outdated}


def split(
    files: Annotated[list[Path], typer.Argument(help="Collections, as for 'index'")],
    out: Annotated[Path, typer.Option("--out", help="A .jsonl file, .jsonl.gz or .jsonl.zst")],
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out passages that cannot be read, and count them")
    ] = False,
) -> None:
    """Split FILES into sentences and write them as one JSONL collection."""
    from baleen.core.progress import track
    from baleen.data.corpus import Tally
    from baleen.data.corpus import read_passages as read
    from baleen.data.corpus import write_passages as write

    tally = Tally()
    write(track(read(files, skip_bad=skip_bad, tally=tally), "splitting", unit="passages"), out)
    typer.echo(f"{tally.passages:,} passages written to {out}, {tally.bad:,} skipped")
