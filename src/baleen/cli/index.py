"""`baleen index`: build, change, check or describe an index.  `baleen split`: collections to one of sentences."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from baleen.cli.options import (
    CollectionOutOption,
    DeviceOption,
    JsonOption,
    ModelOption,
    PrecisionOption,
    SkipBadOption,
    grouped,
)
from baleen.cli.show import print_report

if TYPE_CHECKING:
    from baleen.core.types import Passage
    from baleen.index.index import Index
    from baleen.models.encoder import Encoder

NEW, CHANGE = "New index", "Existing index"  # panels of --help
FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILES", help="Collections: JSONL (.gz, .zst), BEIR or HotPotQA folders, text and Markdown."
    ),
]


def _refuse(why: str, *groups: Any) -> None:
    """Refuse options that were given and would have no effect."""
    values = {field.name: getattr(group, field.name) for group in groups for field in fields(group)}
    given = [
        f"--{name.replace('_', '-')}" for name, value in values.items() if value is not None and value is not False
    ]
    if given:
        raise typer.BadParameter(f"leave out {', '.join(given)}: such options {why}")


@dataclass(frozen=True)
class ReadingOptions:
    """How files are read and encoded."""

    add: Annotated[
        bool,
        typer.Option(
            "--add",
            help="Add FILES to the index.  A passage replaces the one with its id; a text file replaces all passages of "
            "a file with its name.",
            rich_help_panel=CHANGE,
        ),
    ] = False
    model: ModelOption = None
    skip_bad: SkipBadOption = False
    device: DeviceOption = None
    precision: PrecisionOption = None


@dataclass(frozen=True)
class NewIndexOptions:
    """How a new index is built."""

    bits: Annotated[
        Literal["1", "2", "4", "16"] | None,
        typer.Option(
            help="Bits per dimension of a residual; 16 stores float16 vectors.", show_default="2", rich_help_panel=NEW
        ),
    ] = None
    cells: Annotated[
        int | None,
        typer.Option(min=1, help="Number of centroids.", show_default="by the number of vectors", rich_help_panel=NEW),
    ] = None
    seed: Annotated[
        int | None,
        typer.Option(
            help="Random seed of the sample that centroids are fitted to.", show_default="0", rich_help_panel=NEW
        ),
    ] = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing index.", rich_help_panel=NEW)] = (
        False
    )


@dataclass(frozen=True)
class ChangeOptions:
    """What is done to an index without files."""

    delete: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Delete a passage (repeatable).", rich_help_panel=CHANGE),
    ] = None
    compact: Annotated[
        bool,
        typer.Option(
            "--compact", help="Merge segments and free the space of deleted passages.", rich_help_panel=CHANGE
        ),
    ] = False
    verify: Annotated[
        bool, typer.Option("--verify", help="Check every file against its checksum.", rich_help_panel=CHANGE)
    ] = False
    info: Annotated[bool, typer.Option("--info", help="Describe the index.", rich_help_panel=CHANGE)] = False

    def apply(self, index: Index) -> dict[str, Any]:
        """Change or check the index and report what was done."""
        if self.delete:
            return {"removed": index.delete(self.delete)}
        if self.compact:
            return {"bytes_freed": index.compact()}
        return {"files_verified": index.verify()} if self.verify else {}


@grouped
def index(
    files: FilesArgument = None,
    out: Annotated[Path, typer.Option("--out", help="Index folder.")] = Path("baleen.index"),
    *,
    reading: ReadingOptions,
    new: NewIndexOptions,
    change: ChangeOptions,
    as_json: JsonOption = False,
) -> None:
    """Build an index of FILES, or change, check or describe an index."""
    from baleen.index.index import Index

    changes = bool(change.delete) + change.compact + change.verify + change.info
    if bool(files) == bool(changes) or changes > 1:
        raise typer.BadParameter("give files to index, or one of --delete, --compact, --verify, --info")
    if changes:
        _refuse("are for files to index, and none are given", new, reading)
    if reading.add:
        _refuse("are for a new index, and --add keeps the settings of the existing one", new)
    report = _index_files(files, out, reading, new) if files else change.apply(Index.open(out))
    print_report(report | Index.open(out).info(), as_json)


def _index_files(files: list[Path], out: Path, reading: ReadingOptions, new: NewIndexOptions) -> dict[str, Any]:
    from baleen.data.corpus import Tally, estimate_count, read_passages
    from baleen.hops.demo import default_model
    from baleen.index.index import Index
    from baleen.index.writer import refuse_existing
    from baleen.models.encoder import Encoder

    if not reading.add:
        refuse_existing(out, new.overwrite)  # before a model is loaded
    tally = Tally()
    passages = read_passages(files, skip_bad=reading.skip_bad, tally=tally)
    existing = Index.open(out) if reading.add else None
    encoder = Encoder.load(reading.model or default_model(), device=reading.device, precision=reading.precision)
    total = estimate_count(files) if sys.stderr.isatty() else None
    start = time.perf_counter()
    changed: dict[str, int] = {}
    if existing is not None:
        changed = _add(existing, files, passages, encoder, total)
    else:
        Index.build(
            out,
            passages,
            encoder,
            bits=int(new.bits or 2),
            cells=new.cells,
            seed=new.seed or 0,
            overwrite=new.overwrite,
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
    """Add passages; those of a text file replace all earlier passages of it."""
    from baleen.data.corpus import text_file_names
    from baleen.data.textfiles import source_file

    names = text_file_names(files)

    def text_file(pid: str) -> str | None:
        return name if (name := source_file(pid)) in names else None

    done = index.update(passages, encoder, part_of=text_file, total=total, device=str(encoder.device))
    return {"replaced": done.replaced, "outdated": done.outdated}


def split(
    files: Annotated[list[Path], typer.Argument(metavar="FILES", help="Collections, as for 'index'.")],
    out: CollectionOutOption,
    skip_bad: SkipBadOption = False,
) -> None:
    """Split FILES into sentences and write them as one JSONL collection."""
    from baleen.core.progress import track
    from baleen.data.corpus import Tally, read_passages, write_passages

    tally = Tally()
    write_passages(track(read_passages(files, skip_bad=skip_bad, tally=tally), "splitting", unit="passages"), out)
    typer.echo(f"{tally.passages:,} passages written to {out}, {tally.bad:,} skipped")
