from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from baleen.core.errors import CorpusError
from baleen.core.types import Passage
from baleen.data.titles import title_names
from baleen.index.format import ArrayFile, open_array
from baleen.index.store import BLOCK, NAME_ROLES, ROLES, Store, StoreWriter, text_hash

UNHURRIED = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.none() | st.booleans() | st.integers() | TEXT | st.lists(TEXT, max_size=2)
METADATA = st.dictionaries(st.sampled_from(["year", "kind", "Ort", ""]), VALUES, max_size=3)
BODIES = st.lists(st.tuples(TEXT, st.lists(TEXT, max_size=4), METADATA), min_size=1, max_size=40)


def written(root: Path, passages: Sequence[Passage], part: int = 7) -> dict[str, ArrayFile]:
    writer = StoreWriter(root, "g000001/segment")
    for start in range(0, len(passages), part):
        writer.append(passages[start : start + part])
    files = writer.finish()
    assert set(files) == {*ROLES, *NAME_ROLES}
    return files


def stored(root: Path, passages: Sequence[Passage], part: int = 7) -> Store:
    return Store({role: open_array(root, file) for role, file in written(root, passages, part).items()})


def plain(count: int) -> list[Passage]:
    return [Passage.from_sentences(f"id {n}", f"Title {n}", [f"One {n}.", f"Two {n}."], {"n": n}) for n in range(count)]


def assert_holds(store: Store, passages: Sequence[Passage]) -> None:
    for row, passage in enumerate(passages):
        assert store.pid(row) == passage.pid
        assert list(store.rows(passage.pid)) == [row]
        assert store.passage(row) == passage


@UNHURRIED
@given(BODIES, st.integers(1, 40))
def test_passages_round_trip(bodies: list[tuple[str, list[str], dict[str, object]]], part: int) -> None:
    passages = [
        Passage.from_sentences(f"{number}/{title}", title, sentences, metadata)
        for number, (title, sentences, metadata) in enumerate(bodies)
    ]
    with TemporaryDirectory() as folder:
        store = stored(Path(folder), passages, part)
        assert_holds(store, passages)
        for key in {key for passage in passages for key in passage.metadata}:
            assert store.columns[key] == [passage.metadata.get(key) for passage in passages]


@pytest.mark.parametrize("count", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_any_number_of_passages(tmp_path: Path, count: int) -> None:
    passages = plain(count)
    store = stored(tmp_path, passages)
    assert_holds(store, passages)
    assert_holds(store, passages)  # once more, from blocks that were kept


def test_recent_blocks_are_cached(tmp_path: Path) -> None:
    passages = plain(3 * BLOCK)
    files = written(tmp_path, passages)
    arrays = {role: np.array(open_array(tmp_path, file)) for role, file in files.items()}
    store = Store(arrays, cached_blocks=2)
    for block in (0, 1, 0, 2):
        store.passage(block * BLOCK)
    arrays["texts"][:] = 0  # what is not kept can no longer be read
    for row in (0, 2 * BLOCK):
        assert store.passage(row) == passages[row]
    with pytest.raises(zlib.error):
        store.passage(BLOCK)


@pytest.mark.parametrize("pid", ["", " ", "0", "ñandú", "🐋", "a" * 1000, "two\nlines", "nul\0byte"])
def test_any_text_can_be_an_id(tmp_path: Path, pid: str) -> None:
    passages = [*plain(3), Passage(pid, "t", "x")]
    assert_holds(stored(tmp_path, passages), passages)


def test_texts_keep_every_character(tmp_path: Path) -> None:
    texts = ["", "Zoë – naïve", "鯨の歌", "🐋" * 50, "tab\tnewline\r\n\u2028", "\0"]
    passages = [Passage.from_sentences(str(n), text, [text, "", text]) for n, text in enumerate(texts)]
    assert_holds(stored(tmp_path, passages), passages)


def test_an_unknown_id_has_no_row(tmp_path: Path) -> None:
    store = stored(tmp_path, plain(20))
    assert list(store.rows("id 20")) == []
    assert list(store.rows("")) == []


def test_ids_are_hashed_with_blake2b_64() -> None:
    digest = hashlib.blake2b("ñandú".encode(), digest_size=8).digest()
    assert text_hash("ñandú") == int.from_bytes(digest, "little")


def test_missing_metadata_reads_as_none(tmp_path: Path) -> None:
    metadata: list[dict[str, object]] = [{}, {"year": 1811}, {"kind": "town"}, {"year": 1974, "kind": None}, {}]
    passages = [Passage(str(n), "", "x", (), each) for n, each in enumerate(metadata)]
    store = stored(tmp_path, passages)
    assert store.columns == {"year": [None, 1811, None, 1974, None], "kind": [None, None, "town", None, None]}
    assert [store.passage(row).metadata for row in range(5)] == metadata


def test_columns_keep_the_order_of_their_first_use(tmp_path: Path) -> None:
    """Not the order of a set, which differs between processes."""
    keys = [f"key {n * 7 % 30}" for n in range(30)]
    metadata: list[dict[str, object]] = [dict.fromkeys(keys[:20], 1), dict.fromkeys(reversed(keys), 2), {}]
    written(tmp_path, [Passage(str(n), "", "x", (), each) for n, each in enumerate(metadata)])
    columns = json.loads(zlib.decompress((tmp_path / "g000001/segment/columns.bin").read_bytes()))
    assert list(columns) == [*keys[:20], *reversed(keys[20:])]


def test_without_metadata_there_are_no_columns(tmp_path: Path) -> None:
    assert stored(tmp_path, [Passage("1", "", "x"), Passage("2", "", "x")]).columns == {}


@pytest.mark.parametrize(("first", "second"), [(0, 1), (0, 19), (15, 16), (16, 17)])
def test_a_duplicate_id_is_refused_by_its_name(tmp_path: Path, first: int, second: int) -> None:
    passages = plain(20)
    passages[second] = Passage(passages[first].pid, "Another", "text")
    with pytest.raises(CorpusError, match=f"'id {first}' is given to more than one passage"):
        stored(tmp_path, passages)


# Names


def rows_of(store: Store, *names: str) -> list[list[int]]:
    found = dict(store.rows_titled(names))
    return [found.get(number, []) for number in range(len(names))]


def titled(*titles: str) -> list[Passage]:
    return [Passage(str(number), title, "x") for number, title in enumerate(titles)]


def without_names(root: Path, passages: Sequence[Passage]) -> Store:
    """The arrays of an older index, without names."""
    files = written(root, passages)
    return Store({role: open_array(root, files[role]) for role in ROLES})


TITLED = titled("Vardal", "The Deep Choir", "Vardal (ship)", "1974", "", "Tromsk", "VARDAL", "Choir (deep)")


@pytest.mark.parametrize("make", [stored, without_names])
def test_rows_titled_finds_passages_by_name(tmp_path: Path, make: Callable[..., Store]) -> None:
    store = make(tmp_path, TITLED)
    assert rows_of(store, "vardal", "deep choir", "vardal ship", "choir") == [[0, 2, 6], [1], [2], [7]]
    assert rows_of(store, "the deep choir", "Vardal", "1974", "", "whale", "a\udcff") == [[], [], [], [], [], []]
    assert rows_of(store, "tromsk", "whale", "tromsk") == [[5], [], [5]]
    assert rows_of(store) == []


@pytest.mark.parametrize("make", [stored, without_names])
def test_titles_without_names(tmp_path: Path, make: Callable[..., Store]) -> None:
    assert rows_of(make(tmp_path, titled("", "1974", "Ob")), "vardal", "") == [[], []]


def test_one_name_array_without_the_other_is_ignored(tmp_path: Path) -> None:
    files = written(tmp_path, TITLED)
    for role in NAME_ROLES:
        store = Store({other: open_array(tmp_path, file) for other, file in files.items() if other != role})
        assert rows_of(store, "vardal") == [[0, 2, 6]]


def test_name_hashes_and_rows_ascend(tmp_path: Path) -> None:
    files = written(tmp_path, plain(3 * BLOCK) + titled("Title 7", "Title 7 (song)"))
    hashes, rows = (open_array(tmp_path, files[role]).tolist() for role in NAME_ROLES)
    assert list(zip(hashes, rows, strict=True)) == sorted(zip(hashes, rows, strict=True))
    assert [row for hash, row in zip(hashes, rows, strict=True) if hash == text_hash("title 7")] == [7, 48, 49]


TITLES = st.lists(
    st.lists(st.sampled_from(["The", "Deep", "Choir", "(song)", "7"]), max_size=4).map(" ".join), max_size=40
)


@UNHURRIED
@given(TITLES.filter(len))
def test_stored_names_equal_those_derived_from_titles(titles: list[str]) -> None:
    passages = titled(*titles)
    names = sorted({name for title in titles for name in title_names(title)})
    expected = [[row for row, title in enumerate(titles) if name in title_names(title)] for name in names]
    with TemporaryDirectory() as folder:
        assert rows_of(stored(Path(folder) / "kept", passages), *names) == expected
        assert rows_of(without_names(Path(folder) / "made", passages), *names) == expected
