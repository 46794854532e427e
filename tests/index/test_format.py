from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baleen.core.errors import (
    IndexCorruptError,
    IndexExistsError,
    IndexFormatError,
    IndexLockedError,
    IndexNotFoundError,
)
from baleen.index import format
from baleen.index.format import ArrayFile, ArrayWriter, Manifest, SegmentEntry, open_array, write_array

ARRAYS = {
    "bytes": np.arange(7, dtype=np.uint8),
    "words": np.arange(6, dtype=np.uint16).reshape(3, 2),
    "halves": np.linspace(-1, 1, 12, dtype=np.float16).reshape(2, 3, 2),
    "big-endian": np.arange(5, dtype=">i4"),
    "not contiguous": np.arange(20, dtype=np.int64).reshape(4, 5)[::2, ::-1],
    "no rows": np.empty((0, 3), np.float32),
    "rows of nothing": np.empty((4, 0), np.uint8),
}


def manifest_of(root: Path, generation: int, content: int = 0) -> Manifest:
    """A small index: one array in the codec, and one segment of one array with tombstones."""
    folder = f"g{generation:06d}"
    codec = {"scales": write_array(root, f"{folder}/codec/scales.bin", np.full(3, content, np.float32))}
    files = {"codes": write_array(root, f"{folder}/segment/codes.bin", np.full(4, content, np.uint16))}
    tombstones = write_array(root, f"{folder}/tombstones-0.bin", np.array([1], np.uint32))
    segment = SegmentEntry(f"{folder}/segment", 2, 4, files, 1, tombstones)
    return Manifest(generation, 16, 2, "abc", {"query": 32, "facts": None}, 4, codec, (segment,), settings={"seed": 0})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An index at its first generation."""
    format.commit(tmp_path, manifest_of(tmp_path, 1))
    return tmp_path


def edit_manifest(root: Path, **changes: Any) -> None:
    path = root / format.MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def files_under(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS.keys())
def test_arrays_round_trip(tmp_path: Path, array: np.ndarray[Any, Any]) -> None:
    entry = write_array(tmp_path, "g000001/some/array.bin", array)
    assert entry.bytes == (tmp_path / entry.path).stat().st_size == array.nbytes
    assert entry.sha256 == format.file_sha256(tmp_path / entry.path)
    read = open_array(tmp_path, entry)
    np.testing.assert_array_equal(read, array)
    assert read.dtype == array.dtype.newbyteorder("<")


def test_rows_can_be_appended_in_parts(tmp_path: Path) -> None:
    parts = [np.ones((2, 3), np.float32), np.empty((0, 3), np.float32), np.zeros((1, 3))]
    with ArrayWriter(tmp_path, "a.bin", np.float32, (3,)) as writer:
        for part in parts:
            writer.append(part)
    whole = np.concatenate(parts).astype(np.float32)
    np.testing.assert_array_equal(open_array(tmp_path, writer.entry), whole)
    assert dataclasses.replace(writer.entry, path="b.bin") == write_array(tmp_path, "b.bin", whole)


def test_a_file_without_rows(tmp_path: Path) -> None:
    with ArrayWriter(tmp_path, "a.bin", np.uint8) as writer:
        pass
    assert writer.entry.shape == (0,)
    assert open_array(tmp_path, writer.entry).shape == (0,)


def test_numbers_on_disk_are_little_endian(tmp_path: Path) -> None:
    entry = write_array(tmp_path, "a.bin", np.array([1, 258], ">u2"))
    assert entry.dtype == "<u2"
    assert (tmp_path / "a.bin").read_bytes() == b"\x01\x00\x02\x01"


def test_a_mapped_array_is_read_only(root: Path) -> None:
    array = open_array(root, format.read_manifest(root).codec["scales"])
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


@pytest.mark.parametrize("change", ["truncated", "extended", "emptied", "missing"])
def test_a_file_of_the_wrong_size_is_corrupt(root: Path, change: str) -> None:
    entry = format.read_manifest(root).codec["scales"]
    path = root / entry.path
    content = path.read_bytes()
    if change == "missing":
        path.unlink()
    else:
        path.write_bytes({"truncated": content[:-1], "extended": content + b"\0", "emptied": b""}[change])
    with pytest.raises(IndexCorruptError, match=r"scales\.bin"):
        open_array(root, entry)


def test_manifests_round_trip(tmp_path: Path) -> None:
    manifest = manifest_of(tmp_path, 1)
    format.commit(tmp_path, manifest)
    assert format.read_manifest(tmp_path) == manifest


def test_a_manifest_names_each_file_once(root: Path) -> None:
    paths = [entry.path for entry in format.read_manifest(root).files()]
    assert sorted(paths) == ["g000001/codec/scales.bin", "g000001/segment/codes.bin", "g000001/tombstones-0.bin"]


def test_a_commit_is_atomic(root: Path) -> None:
    manifest = manifest_of(root, 2, content=5)
    assert format.read_manifest(root).generation == 1, "files alone change nothing"
    format.commit(root, manifest)
    assert format.read_manifest(root) == manifest
    assert not (root / "manifest.json.new").exists()


@pytest.mark.parametrize("left", ["", "{", '{"format": "baleen-index", "format_version": 1, "generation": 9}'])
def test_an_unfinished_manifest_is_ignored(root: Path, left: str) -> None:
    (root / "manifest.json.new").write_text(left)
    assert format.read_manifest(root).generation == 1
    format.commit(root, manifest_of(root, 2))
    assert format.read_manifest(root).generation == 2


def test_a_folder_without_a_manifest_is_no_index(tmp_path: Path) -> None:
    (tmp_path / "manifest.json.new").write_text("{}")
    (tmp_path / "a file").touch()
    for root in (tmp_path, tmp_path / "nowhere", tmp_path / "a file"):
        with pytest.raises(IndexNotFoundError, match=r"no manifest\.json"):
            format.read_manifest(root)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"format": "baleen-index",'])
def test_a_manifest_that_is_not_json_is_corrupt(root: Path, content: bytes) -> None:
    (root / format.MANIFEST).write_bytes(content)
    with pytest.raises(IndexCorruptError, match="not valid JSON"):
        format.read_manifest(root)


@pytest.mark.parametrize("content", ["[]", "3", "null", "{}", '{"format": "another"}'])
def test_foreign_json_is_another_format(root: Path, content: str) -> None:
    (root / format.MANIFEST).write_text(content)
    with pytest.raises(IndexFormatError, match="not the manifest of a Baleen index"):
        format.read_manifest(root)


@pytest.mark.parametrize("version", [format.FORMAT_VERSION + 1, 0, None, "1"])
def test_another_format_version_is_refused(root: Path, version: object) -> None:
    edit_manifest(root, format_version=version)
    with pytest.raises(IndexFormatError, match=f"index format {version}, but this Baleen reads format"):
        format.read_manifest(root)


@pytest.mark.parametrize("key", ["generation", "dim", "codec", "segments", "focus"])
def test_an_incomplete_manifest_is_corrupt(root: Path, key: str) -> None:
    data = json.loads((root / format.MANIFEST).read_text())
    del data[key]
    (root / format.MANIFEST).write_text(json.dumps(data))
    with pytest.raises(IndexCorruptError, match=f"incomplete .*{key}"):
        format.read_manifest(root)


@pytest.mark.parametrize(
    "changes",
    [{"codec": []}, {"codec": {"scales": 3}}, {"segments": 3}, {"segments": [3]}, {"segments": [{}]}, {"more": 1}],
    ids=str,
)
def test_a_manifest_with_wrong_types_is_corrupt(root: Path, changes: dict[str, Any]) -> None:
    edit_manifest(root, **changes)
    with pytest.raises(IndexCorruptError):
        format.read_manifest(root)


def test_sweep_keeps_only_files_in_the_manifest(root: Path) -> None:
    before = files_under(root)
    write_array(root, "g000002/segment/codes.bin", np.zeros(4))
    write_array(root, "g000001/segment/left-over.bin", np.zeros(4))
    (root / "notes.txt").write_text("of somebody else")
    format.sweep(root)
    assert files_under(root) == before | {"notes.txt"}
    assert not (root / "g000002").exists()


def test_sweep_removes_the_old_generation_after_a_commit(root: Path) -> None:
    format.commit(root, manifest_of(root, 2))
    format.sweep(root)
    assert {path.split("/")[0] for path in files_under(root)} == {"g000002", "manifest.json"}


def test_sweep_keeps_old_files_that_are_still_used(root: Path) -> None:
    first, second = format.read_manifest(root), manifest_of(root, 2)
    mixed = dataclasses.replace(second, codec=first.codec)
    format.commit(root, mixed)
    format.sweep(root)
    assert files_under(root) == {"manifest.json", *(entry.path for entry in mixed.files())}


def test_sweep_without_a_manifest_removes_every_generation(tmp_path: Path) -> None:
    manifest_of(tmp_path, 1)
    format.sweep(tmp_path)
    assert files_under(tmp_path) == set()


@pytest.mark.parametrize("content", ["{", '{"format": "another"}'])
def test_sweep_keeps_everything_if_the_manifest_is_unreadable(root: Path, content: str) -> None:
    (root / format.MANIFEST).write_text(content)
    before = files_under(root)
    format.sweep(root)
    assert files_under(root) == before


@pytest.mark.parametrize("content", ["{", '{"format": "another"}', '{"format": "baleen-index", "format_version": 1}'])
def test_sweep_removes_the_failed_generation_even_then(root: Path, content: str) -> None:
    (root / format.MANIFEST).write_text(content)
    before = files_under(root)
    for generation in (2, 3):
        write_array(root, f"g{generation:06d}/segment/codes.bin", np.zeros(4))
    format.sweep(root, failed=3)
    assert files_under(root) == before | {"g000002/segment/codes.bin"}
    assert not (root / "g000003").exists()


def test_sweep_keeps_a_generation_that_failed_after_its_commit(root: Path) -> None:
    before = files_under(root)
    format.sweep(root, failed=1)
    assert files_under(root) == before


def test_folders_of_others_are_never_removed(tmp_path: Path) -> None:
    (tmp_path / "g202401").mkdir()
    (tmp_path / "g202401" / "photo.jpg").write_text("")
    for _ in range(2):
        with (
            pytest.raises(IndexExistsError, match="contains a folder 'g202401', a name that indexes use"),
            format.write_lock(tmp_path),
        ):
            pass
    assert files_under(tmp_path) == {"g202401/photo.jpg"}


def test_the_next_writer_removes_an_unfinished_build(tmp_path: Path) -> None:
    with format.write_lock(tmp_path):
        write_array(tmp_path, "g000001/segment/codes.bin", np.zeros(4))
    with format.write_lock(tmp_path):
        assert files_under(tmp_path) == {"lock"}


def test_a_second_writer_is_refused_until_the_first_ends(root: Path) -> None:
    with format.write_lock(root):
        with pytest.raises(IndexLockedError, match="another process is writing"), format.write_lock(root):
            pass
        assert write_from_another_process(root) == "refused"
    assert write_from_another_process(root) == "written"
    with format.write_lock(root):
        pass


def write_from_another_process(root: Path) -> str:
    script = (
        "import sys, pathlib\n"
        "from baleen.core.errors import IndexLockedError\n"
        "from baleen.index import format as layout\n"
        "try:\n"
        "    with layout.write_lock(pathlib.Path(sys.argv[1])):\n"
        "        print('written')\n"
        "except IndexLockedError:\n"
        "    print('refused')\n"
    )
    run = subprocess.run([sys.executable, "-c", script, str(root)], capture_output=True, text=True, check=True)
    return run.stdout.strip()


def test_the_lock_is_released_when_a_change_fails(root: Path) -> None:
    with pytest.raises(ZeroDivisionError), format.write_lock(root):
        raise ZeroDivisionError
    with format.write_lock(root):
        pass


def test_a_writer_first_removes_leftovers(root: Path) -> None:
    before = files_under(root)
    write_array(root, "g000002/segment/codes.bin", np.zeros(4))
    with format.write_lock(root):
        assert files_under(root) == before | {"lock"}


def test_the_lock_does_not_stop_readers(root: Path) -> None:
    with format.write_lock(root):
        assert format.read_manifest(root).generation == 1


def test_array_file_size() -> None:
    assert ArrayFile("a", "<u2", (3, 4), "").bytes == 24
    assert ArrayFile("a", "<f4", (0, 4), "").bytes == 0
