"""A component on disk: a folder of safetensors and JSON, written atomically and loaded strictly.

    config.json             format, format_version, kind, settings, special tokens, hashes, notes
    backbone.json           the Hugging Face configuration of the backbone
    model.safetensors       every tensor: `backbone.*` and the heads
    tokenizer.json          the tokenizer, in the format of the tokenizers library

Nothing is pickled.  `resolve_folder` finds a folder by name, `read_checkpoint` and `write_checkpoint` read and write it,
and `mean` averages several.  A checkpoint may be stored as its difference to another, which its config.json names as
`base` (see difference.py).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baleen.core.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    import torch
    from torch import Tensor


FORMAT = "baleen-checkpoint"
MODEL_FORMAT = "baleen-model"  # several checkpoints: see folder.py
FORMATS = (FORMAT, MODEL_FORMAT)
BASE = "base"
AVERAGED = "averaged"  # the note that names the parts of a mean of checkpoints
FORMAT_VERSION = 1
DIFFERENCE_VERSION = 2  # of a checkpoint that needs its base
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The content of a checkpoint folder.

    `kind` names the model ("flipr" or "cross-encoder") and `settings` its configuration.  `backbone` is the Hugging Face
    configuration, `tokens` the special tokens by role (cls, sep, pad, mask), `tokenizer` the content of tokenizer.json,
    and `notes` free-form, such as how the model was trained.
    """

    kind: str
    settings: Mapping[str, Any]
    backbone: Mapping[str, Any]
    tokens: Mapping[str, str | None]
    tokenizer: str
    tensors: Mapping[str, Tensor]
    notes: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def tokenizer_sha256(self) -> str:
        return hashlib.sha256(self.tokenizer.encode()).hexdigest()

    @cached_property
    def weights_sha256(self) -> str:
        """The sha256 of every tensor's name, type, shape and bytes, ordered by name."""
        import torch

        digest = hashlib.sha256()
        for name, tensor in sorted(self.tensors.items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
        return digest.hexdigest()


def resolve_folder(name: str | Path, download: Callable[[str], Path] | None = None) -> Path:
    """Find a model by name: a folder, a folder in one of `search_roots()`, or a model of the Hugging Face hub."""
    candidates = [Path(name).expanduser(), *(root / name for root in search_roots())]
    for folder in candidates:
        if folder.is_dir():
            return folder
    places = ", ".join(map(str, candidates))
    if not _HUB_NAME.fullmatch(str(name)):
        raise CheckpointError(f"no model folder '{name}'; looked at {places}")
    try:
        return (download or _download)(str(name))
    except Exception as error:  # the hub's client and its transports raise many types
        reason = str(error).partition("\n")[0]
        raise CheckpointError(f"no model '{name}'; looked at {places}, then the Hugging Face hub ({reason})") from error


def search_roots() -> list[Path]:
    """The folders in which `resolve_folder` looks for a name, in order."""
    package = Path(__file__).resolve().parents[1]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    roots = [Path(os.environ["BALEEN_CHECKPOINTS"])] if os.environ.get("BALEEN_CHECKPOINTS") else []
    roots.append(Path("checkpoints"))
    if package.parent.name == "src":
        roots.append(package.parents[1] / "checkpoints")
    return [*roots, cache / "baleen" / "checkpoints"]


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(name, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model"]))


def write_checkpoint(folder: str | Path, checkpoint: Checkpoint, base: Mapping[str, str] | None = None) -> None:
    """Write `checkpoint` to `folder`, replacing a checkpoint that is there.

    With a `base` (its `folder` relative to this one, and its `weights_sha256`), the tensors are a difference to it.
    """
    path = Path(folder)
    refuse_whole_model(path)
    version = {"format_version": FORMAT_VERSION if base is None else DIFFERENCE_VERSION}
    with replace_folder(path) as aside:
        for name, content in _contents(checkpoint, version if base is None else {**version, BASE: dict(base)}):
            (aside / name).write_bytes(content)


@contextmanager
def replace_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces `target` after the block; if the block fails, `target` stays as it was.

    A `target` that holds something other than a model of Baleen is refused.
    """
    if target.exists() and not _replaceable(target):
        raise CheckpointError(f"{target}: holds something other than a Baleen checkpoint; choose another folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    old = aside.with_name(aside.name + ".old")
    try:
        yield aside
        aside.chmod(0o755)
        if target.exists():
            target.rename(old)
        aside.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    finally:
        for folder in (aside, old):
            shutil.rmtree(folder, ignore_errors=True)


def refuse_whole_model(folder: Path) -> None:
    """Refuse to replace a whole model with a single checkpoint."""
    if (folder / "config.json").is_file() and read_json(folder / "config.json").get("format") == MODEL_FORMAT:
        raise CheckpointError(
            f"{folder}: a whole model, which would be lost; name a folder in it, such as {folder / 'reading'}"
        )


def _replaceable(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    try:
        return not any(folder.iterdir()) or read_json(folder / "config.json").get("format") in FORMATS
    except CheckpointError:
        return False


def _contents(checkpoint: Checkpoint, version: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    from safetensors.torch import save

    config = {
        "format": FORMAT,
        **version,
        "kind": checkpoint.kind,
        "settings": dict(checkpoint.settings),
        "tokens": dict(checkpoint.tokens),
        "tokenizer_sha256": checkpoint.tokenizer_sha256,
        "weights_sha256": checkpoint.weights_sha256,
        "notes": dict(checkpoint.notes),
    }
    yield "backbone.json", _json_bytes(dict(checkpoint.backbone))
    yield "tokenizer.json", checkpoint.tokenizer.encode()
    yield "model.safetensors", save({name: tensor.contiguous() for name, tensor in checkpoint.tensors.items()})
    yield "config.json", _json_bytes(config)


def _json_bytes(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def read_checkpoint(folder: str | Path, kind: str) -> Checkpoint:
    """Read the checkpoint in `folder`; CheckpointError if it is of another kind or format, incomplete or altered."""
    path = Path(folder)
    config = _read_config(path, kind)
    missing = {"settings", "tokens", "tokenizer_sha256", "weights_sha256"} - config.keys()
    if missing:
        raise CheckpointError(f"{path / 'config.json'}: lacks {', '.join(sorted(missing))}")
    checkpoint = Checkpoint(
        kind=kind,
        settings=config["settings"],
        backbone=read_json(path / "backbone.json"),
        tokens=config["tokens"],
        tokenizer=_read_bytes(path / "tokenizer.json").decode(errors="replace"),
        tensors=_read_tensors(path / "model.safetensors"),
        notes=config.get("notes", {}),
    )
    for file, found in (("tokenizer", checkpoint.tokenizer_sha256), ("weights", checkpoint.weights_sha256)):
        if found != config[f"{file}_sha256"]:
            expected = config[f"{file}_sha256"]
            raise CheckpointError(
                f"{path}: its {file} were altered (sha256 {found:.12}..., expected {expected:.12}...)"
            )
    return checkpoint if BASE not in config else _restore(path, config[BASE], checkpoint)


def _restore(path: Path, base: Any, stored: Checkpoint) -> Checkpoint:
    """Restore a checkpoint from its difference to `base`."""
    from baleen.models.difference import restore

    if not isinstance(base, dict) or not all(isinstance(base.get(key), str) for key in ("folder", "weights_sha256")):
        raise CheckpointError(f"{path / 'config.json'}: {BASE} should have a folder and its weights_sha256")
    folder = path / base["folder"]
    if not (folder / "config.json").is_file():
        raise CheckpointError(f"{path}: is a difference to {folder}, which is missing; keep both in one folder")
    if BASE in _read_config(folder, stored.kind):
        raise CheckpointError(
            f"{path}: is a difference to {folder}, which is a difference itself; expected a whole checkpoint"
        )
    whole = read_checkpoint(folder, stored.kind)
    if whole.weights_sha256 != base["weights_sha256"]:
        raise CheckpointError(
            f"{path}: is a difference to other weights than those in {folder}; restore these, or make the difference again"
        )
    check_same_model(whole, replace(stored, tensors=whole.tensors), str(path))
    return replace(stored, tensors=restore(whole.tensors, stored.tensors, str(path)))


def _read_config(path: Path, kind: str) -> dict[str, Any]:
    if not path.is_dir():
        raise CheckpointError(f"{path}: no such model folder")
    config = read_json(path / "config.json")
    if "format" not in config and "model_type" in config:
        raise CheckpointError(
            f"{path}: a plain Hugging Face model, not a Baleen checkpoint; make an encoder of it with Encoder.from_backbone"
        )
    if config.get("format") != FORMAT:
        raise CheckpointError(f"{path}: not a Baleen checkpoint (format {config.get('format')!r}, expected {FORMAT!r})")
    version = config.get("format_version")
    if not isinstance(version, int) or not 1 <= version <= DIFFERENCE_VERSION:
        raise CheckpointError(
            f"{path}: format version {version!r}, expected at most {DIFFERENCE_VERSION}; install a newer Baleen"
        )
    if config.get("kind") != kind:
        raise CheckpointError(f"{path}: holds a model of kind {config.get('kind')!r}, expected {kind!r}")
    return config


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"{path}: {(error.strerror or str(error)).lower()}; the checkpoint is incomplete"
        ) from None


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file of a checkpoint."""
    try:
        value = json.loads(_read_bytes(path))
    except ValueError as error:
        raise CheckpointError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: expected a JSON object")
    return value


def _read_tensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise CheckpointError(f"{path}: no such file; the checkpoint is incomplete")
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path}: truncated or not a safetensors file: {error}") from None


def tensors_to_save(state: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Return a model's tensors for a checkpoint, in `dtype`; CheckpointError if they were rounded on loading."""
    import torch

    if any(tensor.dtype in (torch.bfloat16, torch.float16, torch.int8) for tensor in state.values()):
        raise CheckpointError("these weights were rounded for speed: load the model with trainable=True to save it")
    return {name: t.detach().cpu().to(dtype if t.is_floating_point() else t.dtype) for name, t in state.items()}


def check_names(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], source: str) -> None:
    """Refuse tensors that are missing, unexpected, or of another shape than the model's."""
    missing, unexpected = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    wrong = sorted(name for name in expected.keys() & found.keys() if expected[name].shape != found[name].shape)
    for names, fault in (
        (missing, "missing"),
        (unexpected, "unexpected"),
        (wrong, "of another shape than the model's"),
    ):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise CheckpointError(f"{source}: tensors {fault}: {', '.join(names[:3])}{more}")


def check_same_model(first: Checkpoint, other: Checkpoint, source: str) -> None:
    """Refuse a checkpoint whose settings, backbone, tokenizer or tensor shapes differ from the first one's."""
    if other.tokenizer_sha256 != first.tokenizer_sha256:
        raise CheckpointError(f"{source}: has another tokenizer than the first; expected checkpoints of one model")
    for part in ("settings", "backbone", "tokens"):
        ours, theirs = getattr(first, part), getattr(other, part)
        for key in sorted({*ours, *theirs}):
            if ours.get(key) != theirs.get(key):
                raise CheckpointError(
                    f"{source}: {part}: {key} = {theirs.get(key)!r}, and {ours.get(key)!r} in the first; expected "
                    "checkpoints of one model"
                )
    check_names(other.tensors, first.tensors, source)


def mean(folders: Sequence[str | Path], kind: str, weights: Sequence[float] | None = None) -> Checkpoint:
    """Average the weights of checkpoints of one `kind` (a model soup), which share their starting weights.

    `weights` are the shares, in any unit (None: equal).  Sums are in float32.  The result has the types and notes of the
    first checkpoint, and a note of its parts.
    """
    given = [1.0] * len(folders) if weights is None else list(weights)
    if len(folders) < 2 or len(given) != len(folders):
        raise ConfigError(f"{len(folders)} checkpoints and {len(given)} weights; expected two or more, one weight each")
    if not all(math.isfinite(weight) and weight > 0 for weight in given):
        raise ConfigError(f"weights = {given}; expected numbers above 0 (leave out a checkpoint that should not count)")
    first = read_checkpoint(folders[0], kind)
    total: dict[str, Tensor] = {}
    parts: list[dict[str, Any]] = []
    for folder, weight in zip(folders, given, strict=True):  # one at a time: they may be large
        found, share = read_checkpoint(folder, kind), weight / sum(given)
        check_same_model(first, found, str(folder))
        for name, tensor in found.tensors.items():
            if tensor.is_floating_point():
                total[name] = total.get(name, 0) + tensor.float() * share
            elif not tensor.equal(first.tensors[name]):
                raise CheckpointError(f"{folder}: the integers of {name} differ from the first checkpoint's")
        earlier = {AVERAGED: found.notes[AVERAGED]} if AVERAGED in found.notes else {}
        parts.append({"share": round(share, 6), "weights_sha256": found.weights_sha256, **earlier})
    tensors = {name: total.get(name, tensor).to(tensor.dtype) for name, tensor in first.tensors.items()}
    return replace(first, tensors=tensors, notes={**first.notes, AVERAGED: parts})
