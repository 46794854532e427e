from __future__ import annotations

import errno
import gc
import random
import shutil
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from baleen.core.errors import (
    CorpusError,
    EncoderMismatchError,
    IndexCorruptError,
    IndexExistsError,
    IndexFormatError,
    IndexLockedError,
    IndexNotFoundError,
    QueryError,
)
from baleen.core.types import Passage
from baleen.data.titles import MAX_SAME_TITLE
from baleen.index import format
from baleen.index.index import MAX_SEGMENTS, Addition, Index
from baleen.index.protocol import Titled
from baleen.index.store import NAME_ROLES
from index_fakes import (
    WordEncoder,
    assert_ranks,
    passages_of,
    random_text,
    random_texts,
    search_all,
    search_one,
    slow_scores,
    staged_search,
)

ENCODER = WordEncoder()
TEXTS = {"sea": "whale fish salt", "air": "gull wind", "land": "mouse grass oak wind", "fire": "ember"}


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of TEXTS that tests only copy."""
    root = tmp_path_factory.mktemp("original") / "index"
    Index.build(root, passages_of(TEXTS), ENCODER)
    return root


@pytest.fixture
def root(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "index"))


def files_under(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def named_files(root: Path) -> set[str]:
    """The files of an index, and the lock."""
    return {entry.path for entry in format.read_manifest(root).files()} | {"manifest.json", "lock"}


def assert_holds(index: Index, texts: dict[str, str], chance: random.Random | None = None) -> None:
    """Check that `index` holds exactly these texts, through every way of reading it."""
    assert len(index) == len(texts)
    assert sorted(index.pids()) == sorted(texts)
    for pid, text in texts.items():
        assert pid in index
        assert index.passage(pid) == passages_of({pid: text})[0]
        vectors = index.vectors(pid)
        assert vectors.shape == (len(text.split()), ENCODER.dim)
        if index.manifest.bits == 16:
            np.testing.assert_array_equal(vectors, ENCODER.vectors(text).astype(np.float16))
    chance = chance or random.Random(0)
    asked = texts[chance.choice(sorted(texts))] + " " + random_text(chance, 3)
    query = ENCODER.encode_query(asked, random_text(chance, 2))
    scores = slow_scores(index, query, texts)
    for ranking in (search_one(index, query, 5), staged_search(index, query, 5)):
        assert_ranks(ranking, scores, 5)


def failing(passages: list[Passage]) -> Iterator[Passage]:
    yield from passages
    raise OSError("the disk with the corpus is gone")


# Building


@pytest.mark.parametrize("bits", [1, 2, 4, 16])
def test_build_open_search(tmp_path: Path, bits: int) -> None:
    texts = random_texts(40)
    built = Index.build(tmp_path / "index", passages_of(texts), ENCODER, bits=bits)
    assert_holds(built, texts)
    opened = Index.open(str(tmp_path / "index"))
    assert_holds(opened, texts)
    assert list(opened.pids()) == list(texts), "in the order in which they came"
    assert opened.verify() == built.verify() > 0
    assert files_under(tmp_path / "index") == named_files(tmp_path / "index")


def test_an_index_of_one_passage(tmp_path: Path) -> None:
    for bits in (2, 16):
        index = Index.build(tmp_path / f"{bits}", passages_of({"only": "one"}), ENCODER, bits=bits)
        assert_holds(index, {"only": "one"})
        assert search_one(index, ENCODER.encode_query("one")).pids == ("only",)


def test_building_without_passages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no passages"):
        Index.build(tmp_path / "index", [], ENCODER)
    assert not (tmp_path / "index").exists()


def test_a_passage_without_vectors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="'blank' has no vectors"):
        Index.build(tmp_path / "index", passages_of({"full": "whale", "blank": ""}), ENCODER)
    assert not (tmp_path / "index").exists()


def test_a_duplicate_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="'sea' is given to more than one"):
        Index.build(tmp_path / "index", [*passages_of(TEXTS), *passages_of({"sea": "again"})], ENCODER)
    assert not (tmp_path / "index").exists()


def test_an_existing_index_is_replaced_only_with_overwrite(root: Path) -> None:
    with pytest.raises(IndexExistsError, match="overwrite"):
        Index.build(root, passages_of({"new": "text"}), ENCODER)
    assert_holds(Index.open(root), TEXTS)
    Index.build(root, passages_of({"new": "text"}), ENCODER, overwrite=True)
    assert_holds(Index.open(root), {"new": "text"})
    assert files_under(root) == named_files(root), "nothing of the old one is left"


def test_building_into_an_existing_folder(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert_holds(Index.build(tmp_path, passages_of(TEXTS), ENCODER), TEXTS)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_failed_build_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone"):
        Index.build(tmp_path / "deep" / "index", failing(passages_of(TEXTS)), ENCODER)
    assert not (tmp_path / "deep" / "index").exists()
    (tmp_path / "there").mkdir()
    with pytest.raises(OSError, match="gone"):
        Index.build(tmp_path / "there", failing(passages_of(TEXTS)), ENCODER)
    assert files_under(tmp_path / "there") <= {"lock"}


def test_a_failed_overwrite_leaves_the_old_index(root: Path) -> None:
    with pytest.raises(OSError, match="gone"):
        Index.build(root, failing(passages_of({"new": "text"})), ENCODER, overwrite=True)
    assert_holds(Index.open(root), TEXTS)
    assert files_under(root) == named_files(root)


def test_a_failed_change_closes_its_files(root: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        with pytest.raises(OSError, match="gone"):
            Index.open(root).add(failing(passages_of({"ice": "frost"})), ENCODER)
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


def test_the_old_index_answers_during_an_overwrite(root: Path) -> None:
    def watching() -> Iterator[Passage]:
        yield from passages_of({"new": "text"})
        assert_holds(Index.open(root), TEXTS)

    old = Index.open(root)
    Index.build(root, watching(), ENCODER, overwrite=True)
    assert_holds(old, TEXTS)
    assert_holds(Index.open(root), {"new": "text"})


def test_the_same_seed_builds_the_same_bytes(tmp_path: Path) -> None:
    manifests = [
        Index.build(tmp_path / name, passages_of(random_texts(30)), ENCODER, seed=seed).manifest
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert manifests[0] == manifests[1] != manifests[2]


def test_the_number_of_cells_can_be_set(tmp_path: Path) -> None:
    index = Index.build(tmp_path / "index", passages_of(TEXTS), ENCODER, cells=3)
    assert index.info()["cells"] == 3
    assert_holds(index, TEXTS)


# Changing


def test_added_passages_are_found(root: Path) -> None:
    index = Index.open(root)
    assert index.add(passages_of({"ice": "frost bear"}), ENCODER) == 1
    assert_holds(index, TEXTS | {"ice": "frost bear"})
    assert search_one(index, ENCODER.encode_query("frost bear"), 1).pids == ("ice",)
    assert_holds(Index.open(root), TEXTS | {"ice": "frost bear"})


def test_adding_an_existing_id_replaces_the_passage(root: Path) -> None:
    index = Index.open(root)
    index.add(passages_of({"sea": "frost bear", "ice": "polar"}), ENCODER)
    assert_holds(index, TEXTS | {"sea": "frost bear", "ice": "polar"})
    index.add(passages_of({"sea": "whale again"}), ENCODER)
    assert_holds(Index.open(root), TEXTS | {"sea": "whale again", "ice": "polar"})


def test_adding_nothing_changes_nothing(root: Path) -> None:
    index = Index.open(root)
    generation = index.manifest.generation
    assert index.add([], ENCODER) == 0
    assert index.manifest.generation == generation
    assert files_under(root) == named_files(root)


@pytest.mark.parametrize("passages", [{"ice": ""}, {"ice": "frost", "blank": " "}])
def test_adding_a_passage_without_vectors_is_refused(root: Path, passages: dict[str, str]) -> None:
    index = Index.open(root)
    with pytest.raises(CorpusError, match="has no vectors"):
        index.add(passages_of(passages), ENCODER)
    assert_holds(index, TEXTS)
    assert files_under(root) == named_files(root)


def test_a_failed_addition_changes_nothing(root: Path) -> None:
    index = Index.open(root)
    with pytest.raises(OSError, match="gone"):
        index.add(failing(passages_of({"ice": "frost"})), ENCODER)
    assert_holds(index, TEXTS)
    assert_holds(Index.open(root), TEXTS)
    assert files_under(root) == named_files(root)


def test_adding_a_duplicate_id_is_refused(root: Path) -> None:
    index = Index.open(root)
    with pytest.raises(CorpusError, match="'ice' is given to more than one"):
        index.add([*passages_of({"ice": "frost"}), *passages_of({"ice": "bear"})], ENCODER)
    assert_holds(index, TEXTS)


def test_deleted_passages_are_never_returned(root: Path) -> None:
    index = Index.open(root)
    assert index.delete(["sea", "fire", "sea"]) == 2
    left = {pid: TEXTS[pid] for pid in ("air", "land")}
    for each in (index, Index.open(root)):
        assert_holds(each, left)
        assert "sea" not in each
        query = ENCODER.encode_query(TEXTS["sea"])
        for ranking in (search_one(each, query), search_one(each, query, exact=True), staged_search(each, query, 10)):
            assert set(ranking.pids) == set(left)
        with pytest.raises(QueryError, match="no passage has the id 'sea'"):
            each.passage("sea")
        with pytest.raises(QueryError, match="no passage has the id 'sea'"):
            each.vectors("sea")


def test_deleting_an_unknown_id_needs_missing_ok(root: Path) -> None:
    index = Index.open(root)
    with pytest.raises(QueryError, match=r"'nothing' \(unknown ids: 1\); nothing was deleted"):
        index.delete(["sea", "nothing"])
    assert_holds(index, TEXTS)
    assert index.delete(["sea", "nothing"], missing_ok=True) == 1
    assert "sea" not in index
    generation = index.manifest.generation
    assert index.delete(["nothing"], missing_ok=True) == 0
    assert index.manifest.generation == generation


def test_an_id_with_an_unpaired_surrogate_is_unknown(root: Path) -> None:
    index, half = Index.open(root), "sea\udcff"
    with pytest.raises(QueryError):
        index.passage(half)
    with pytest.raises(QueryError):
        index.delete([half])
    query = ENCODER.encode_query("whale")
    assert search_one(index, query, 4, exclude=[half]).pids == search_one(index, query, 4).pids


def test_a_deleted_id_can_be_added_again(root: Path) -> None:
    index = Index.open(root)
    index.delete(["sea"])
    index.add(passages_of({"sea": "frost bear"}), ENCODER)
    assert_holds(index, TEXTS | {"sea": "frost bear"})
    index.compact()
    assert_holds(index, TEXTS | {"sea": "frost bear"})


@pytest.mark.parametrize("bits", [2, 16])
def test_compact_keeps_passages_and_frees_space(tmp_path: Path, bits: int) -> None:
    texts = random_texts(60)
    index = Index.build(tmp_path / "index", passages_of(texts), ENCODER, bits=bits)
    index.add(
        passages_of(more := {f"more {n}": text for n, text in enumerate(random_texts(20, seed=5).values())}), ENCODER
    )
    gone = list(texts)[::2]
    index.delete(gone)
    left = {pid: text for pid, text in (texts | more).items() if pid not in gone}
    vectors = {pid: index.vectors(pid) for pid in left}
    before = index.bytes
    given_back = index.compact()
    assert given_back == before - index.bytes > 0
    assert index.info()["segments"] == 1
    assert index.info()["deleted"] == 0
    for each in (index, Index.open(tmp_path / "index")):
        assert_holds(each, left)
        assert list(each.pids()) == list(left), "in the same order"
        for pid in left:
            np.testing.assert_array_equal(each.vectors(pid), vectors[pid])
    assert files_under(index.root) == named_files(index.root)
    assert index.bytes == sum((index.root / name).stat().st_size for name in named_files(index.root) - {"lock"})


def test_compacting_a_compact_index_changes_nothing(root: Path) -> None:
    index = Index.open(root)
    generation = index.manifest.generation
    assert index.compact() == 0
    assert index.manifest.generation == generation


@pytest.mark.parametrize(
    ("first", "replaced", "segments"),
    [([6], "p0", 2), ([2, 6], "p0", 3), ([2, 6], "p3", 3), ([2, 2, 6], "p1", 3)],
)
def test_many_small_segments_are_merged_in_order(
    tmp_path: Path, first: list[int], replaced: str, segments: int
) -> None:
    sizes = [*first, *[1] * (MAX_SEGMENTS - len(first))]
    texts = random_texts(sum(sizes))
    waiting = iter(passages_of(texts))
    index = Index.build(tmp_path / "index", islice(waiting, sizes[0]), ENCODER)
    for size in sizes[1:]:
        index.add(islice(waiting, size), ENCODER)
    assert len(index.segments) == MAX_SEGMENTS
    index.add(passages_of({replaced: "frost bear"}), ENCODER)
    del texts[replaced]
    texts[replaced] = "frost bear"
    for each in (index, Index.open(index.root)):
        assert list(each.pids()) == list(texts)
        assert_holds(each, texts)
    assert len(index.segments) == segments
    index.verify()
    assert files_under(index.root) == named_files(index.root)


def test_an_addition_survives_a_failed_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    index = Index.build(tmp_path / "index", passages_of({"p0": "sea"}), ENCODER)
    texts = random_texts(MAX_SEGMENTS + 2)
    full = OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patched:
        patched.setattr("baleen.index.index.merge_segments", Mock(side_effect=full))
        for pid in list(texts)[: MAX_SEGMENTS + 1]:
            assert index.add(passages_of({pid: texts[pid]}), ENCODER) == 1
    assert "small segments stay as they are until the next addition" in caplog.text
    assert len(index.segments) > MAX_SEGMENTS
    last = list(texts)[-1]
    index.add(passages_of({last: texts[last]}), ENCODER)
    assert len(index.segments) < MAX_SEGMENTS
    assert_holds(Index.open(index.root), texts)
    assert files_under(index.root) == named_files(index.root)


def test_a_string_is_refused_as_a_list_of_ids(root: Path) -> None:
    index, query = Index.open(root), ENCODER.encode_query("whale")
    with pytest.raises(QueryError, match="one string, 'sea', where ids are expected"):
        index.delete("sea")
    for options in ({"exclude": "sea"}, {"allow": "sea"}):
        with pytest.raises(QueryError, match="one string, 'sea', where ids are expected; put it into a list"):
            search_one(index, query, **options)
    with pytest.raises(QueryError, match="exclude has ids for 1 queries; expected them for each of 2, or none"):
        search_all(index, [query, query], exclude=[["sea"]])
    with pytest.raises(QueryError, match="one string, 'sea', where ids are expected"):
        search_all(index, [query, query], exclude=["sea", "whale"])
    with pytest.raises(QueryError, match="boosted has ids for 1 queries"):
        search_all(index, [query, query], boosted=[["sea"]], boost=1.0)
    with pytest.raises(QueryError, match="one string, 'sea', where ids are expected"):
        search_all(index, [query], boosted=["sea"], boost=1.0)
    assert search_one(index, query, allow=np.array(["sea"])).pids == ("sea",)
    assert_holds(index, TEXTS)


def test_update_replaces_whole_documents(tmp_path: Path) -> None:
    """In one change; passages without a document and documents that are not updated stay."""
    texts = {"a#1": "sea", "a#2": "whale", "a#3": "ice", "b#1": "bear", "alone": "frost"}
    index = Index.build(tmp_path / "index", passages_of(texts), ENCODER)
    generation = index.manifest.generation

    def document(pid: str) -> str | None:
        return pid.partition("#")[0] if "#" in pid else None

    done = index.update(passages_of({"a#2": "polar", "alone": "sun"}), ENCODER, part_of=document)
    assert done == Addition(added=2, replaced=2, outdated=2)
    assert index.manifest.generation == generation + 1
    assert_holds(Index.open(index.root), {"b#1": "bear", "a#2": "polar", "alone": "sun"})
    assert index.update([], ENCODER, part_of=document) == Addition(0, 0, 0)
    assert index.update(passages_of({"c": "sea"}), ENCODER, part_of=document) == Addition(1, 0, 0)
    assert index.update(passages_of({"a#9": "sea"}), ENCODER) == Addition(1, 0, 0), "where nobody tells of documents"


def test_a_failed_open_keeps_the_previous_state(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index.open(root)
    with monkeypatch.context() as patched:
        patched.setattr("baleen.index.snapshot.Segment", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
        with pytest.raises(OSError, match="Too many"):
            index.delete(["sea"])
    assert "sea" in index, "here"
    assert "sea" not in Index.open(root), "and not on disk, where that was committed"
    other = next(pid for pid in TEXTS if pid != "sea")
    index.delete([other])
    left = {pid: text for pid, text in TEXTS.items() if pid not in ("sea", other)}
    assert_holds(index, left)
    assert_holds(Index.open(root), left)
    assert files_under(index.root) == named_files(index.root)


@pytest.fixture
def emptied(root: Path) -> Index:
    index = Index.open(root)
    index.delete(TEXTS)
    return index


def test_all_passages_can_be_deleted(emptied: Index) -> None:
    for index in (emptied, Index.open(emptied.root)):
        assert len(index) == 0
        assert list(index.pids()) == []
        assert "sea" not in index
        assert index.info()["passages"] == 0
        index.verify()


def test_passages_can_be_added_to_an_emptied_index(emptied: Index) -> None:
    emptied.add(passages_of(TEXTS), ENCODER)
    assert_holds(emptied, TEXTS)


def test_an_emptied_index_finds_nothing(emptied: Index) -> None:
    for exact in (True, False):
        assert len(search_one(emptied, ENCODER.encode_query("whale"), exact=exact)) == 0


def test_an_emptied_index_can_be_compacted(emptied: Index) -> None:
    emptied.compact()
    assert len(Index.open(emptied.root)) == 0


@pytest.mark.parametrize(("bits", "seed"), [(2, 0), (16, 1), (1, 2), (4, 3)])
def test_random_changes_equal_a_dict(tmp_path: Path, bits: int, seed: int) -> None:
    chance = random.Random(seed)
    model = random_texts(12, seed=seed)
    index = Index.build(tmp_path / "index", passages_of(model), ENCODER, bits=bits, seed=seed)
    for _ in range(14):
        match chance.choice(["add", "add", "delete", "compact", "open"]):
            case "add":
                new = {f"p{chance.randrange(25)}": random_text(chance, chance.randint(1, 9)) for _ in range(4)}
                assert index.add(passages_of(new), ENCODER) == len(new)
                model |= new
            case "delete":
                gone = chance.sample(sorted(model), min(3, len(model) - 1))
                assert index.delete(gone) == len(gone)
                model = {pid: text for pid, text in model.items() if pid not in gone}
            case "compact":
                index.compact()
                assert len(index.segments) == 1
            case "open":
                index = Index.open(tmp_path / "index")
        assert_holds(index, model, chance)
    index.verify()
    assert files_under(index.root) == named_files(index.root)


# Names


def titled(titles: dict[str, str]) -> list[Passage]:
    return [Passage.from_sentences(pid, title, [f"text of {pid}"]) for pid, title in titles.items()]


def pids_titled(index: Index, names: Sequence[str]) -> list[tuple[str, ...]]:
    return [found.pids for found in index.titled(names)]


def forget_names(root: Path) -> None:
    """Remove the name arrays, which older indexes lack."""
    manifest = format.read_manifest(root)
    left = (
        replace(entry, files={role: file for role, file in entry.files.items() if role not in NAME_ROLES})
        for entry in manifest.segments
    )
    format.commit(root, replace(manifest, segments=tuple(left)))


TITLES = {"v": "Vardal", "c": "The Deep Choir", "s": "Vardal (ship)", "n": "1974"}
ASKED = ("vardal", "deep choir", "whale", "vardal ship", "1974")


@pytest.fixture
def named(tmp_path: Path) -> Index:
    return Index.build(tmp_path / "named", titled(TITLES), ENCODER)


def test_titled_finds_passages_by_each_name(named: Index) -> None:
    for index in (named, Index.open(named.root)):
        assert pids_titled(index, ASKED) == [("v", "s"), ("c",), (), ("s",), ()]
        assert pids_titled(index, ["vardal", "whale", "vardal"]) == [("v", "s"), (), ("v", "s")]
        assert pids_titled(index, []) == []


def test_titled_follows_additions_and_deletions(named: Index) -> None:
    named.add(titled({"w": "Humpback whale", "d": "Vardal"}), ENCODER)
    assert pids_titled(named, ["vardal", "humpback whale"]) == [("v", "s", "d"), ("w",)], "added ones count"
    named.delete(["v"])
    assert pids_titled(named, ["vardal"]) == [("s", "d")], "deleted ones do not"
    named.add(titled({"s": "Humpback whale", "v": "Tromsk"}), ENCODER)
    expected = [("d",), ("w", "s"), ("v",), ()]
    for index in (named, Index.open(named.root)):
        assert pids_titled(index, ["vardal", "humpback whale", "tromsk", "vardal ship"]) == expected
    assert named.compact() > 0
    assert len(named.segments) == 1
    for index in (named, Index.open(named.root)):
        assert pids_titled(index, ["vardal", "humpback whale", "tromsk", "vardal ship"]) == expected


def test_titled_reports_too_many_passages(named: Index) -> None:
    named.add(titled({f"v{number}": "Vardal" for number in range(MAX_SAME_TITLE - 2)}), ENCODER)
    assert len(pids_titled(named, ["vardal"])[0]) == MAX_SAME_TITLE
    named.add(titled({"one more": "Vardal"}), ENCODER)
    assert named.titled(["vardal", "deep choir"]) == [Titled(too_many=True), Titled(("c",))]
    named.delete(["v0"])
    assert len(pids_titled(named, ["vardal"])[0]) == MAX_SAME_TITLE, "the dead are not counted"
    named.add(titled({f"w{number}": "Vardal" for number in range(3 * MAX_SAME_TITLE)}), ENCODER)
    assert named.titled(["vardal", "deep choir"]) == [Titled(too_many=True), Titled(("c",))]


def test_an_index_without_name_arrays_derives_them_from_titles(named: Index) -> None:
    named.add(titled({"d": "Vardal", "gone": "Tromsk"}), ENCODER)
    named.delete(["gone"])
    asked, expected = (*ASKED, "tromsk"), pids_titled(named, (*ASKED, "tromsk"))
    forget_names(named.root)
    index = Index.open(named.root)
    assert not any(role in entry.files for entry in index.manifest.segments for role in NAME_ROLES)
    assert pids_titled(index, asked) == expected == [("v", "s", "d"), ("c",), (), ("s",), (), ()]
    index.verify()
    index.add(titled({"t": "Tromsk"}), ENCODER)
    assert pids_titled(index, ["vardal", "tromsk"]) == [("v", "s", "d"), ("t",)], "beside a segment that keeps them"
    index.compact()
    assert all(role in entry.files for entry in index.manifest.segments for role in NAME_ROLES)
    assert pids_titled(Index.open(named.root), ["vardal", "tromsk"]) == [("v", "s", "d"), ("t",)]
    assert files_under(named.root) == named_files(named.root)


def test_an_index_without_name_arrays_can_be_searched(named: Index) -> None:
    queries = [ENCODER.encode_query("text of v"), ENCODER.encode_query("s")]
    boosted = [["c"], ["n", "s"]]
    before = search_all(named, queries, 2, boosted=boosted, boost=3.0)
    forget_names(named.root)
    assert search_all(Index.open(named.root), queries, 2, boosted=boosted, boost=3.0) == before


def test_an_emptied_index_has_no_titles(emptied: Index) -> None:
    assert emptied.titled(["title of sea"]) == [Titled()]
    query = ENCODER.encode_query("whale")
    assert [len(each) for each in search_all(emptied, [query], boosted=[["sea"]], boost=1.0)] == [0]


# The encoder


def test_another_encoder_is_refused_with_both_fingerprints(root: Path) -> None:
    index, other = Index.open(root), WordEncoder(name="other")
    with pytest.raises(
        EncoderMismatchError, match=f"{ENCODER.fingerprint[:12]}, but the encoder given is {other.fingerprint[:12]}"
    ):
        index.add(passages_of({"ice": "frost"}), other)
    assert_holds(index, TEXTS)
    index.check_encoder(ENCODER.fingerprint)


def test_the_encoder_is_checked_against_the_newest_state(root: Path) -> None:
    index, other = Index.open(root), WordEncoder(name="other")
    Index.build(root, passages_of(TEXTS), other, overwrite=True)
    with pytest.raises(EncoderMismatchError):
        index.add(passages_of({"ice": "frost"}), ENCODER)


def test_the_index_stores_the_focus_of_its_encoder(tmp_path: Path) -> None:
    for focus in ((32, 8), (None, None), (4, None)):
        Index.build(tmp_path / "index", passages_of(TEXTS), WordEncoder(focus=focus), overwrite=True)
        assert Index.open(tmp_path / "index").focus == focus


# Several hands


def test_a_change_starts_from_the_newest_state(root: Path) -> None:
    first, second = Index.open(root), Index.open(root)
    first.add(passages_of({"ice": "frost"}), ENCODER)
    assert "ice" not in second, "a state that is open stays as it is"
    second.delete(["sea"])
    expected = {pid: text for pid, text in TEXTS.items() if pid != "sea"} | {"ice": "frost"}
    assert_holds(second, expected)
    assert_holds(Index.open(root), expected)
    first.compact()
    assert_holds(first, expected)


def test_an_open_index_survives_changes_by_others(root: Path) -> None:
    reader, writer = Index.open(root), Index.open(root)
    writer.delete(["sea"])
    writer.compact()
    assert_holds(reader, TEXTS)


def test_a_rebuilt_folder_is_noticed(root: Path) -> None:
    index = Index.open(root)
    shutil.rmtree(root)
    Index.build(root, passages_of({"new": "text of another index"}), ENCODER)
    index.add(passages_of({"ice": "frost"}), ENCODER)
    assert_holds(Index.open(root), {"new": "text of another index", "ice": "frost"})
    Index.open(root).verify()


def test_a_second_writer_is_refused(root: Path) -> None:
    index = Index.open(root)
    with format.write_lock(root):
        for change in (
            lambda: index.add(passages_of({"ice": "frost"}), ENCODER),
            lambda: index.delete(["sea"]),
            lambda: index.compact(),
            lambda: Index.build(root, passages_of(TEXTS), ENCODER, overwrite=True),
        ):
            with pytest.raises(IndexLockedError):
                change()
        assert_holds(Index.open(root), TEXTS)
    index.delete(["sea"])


# Broken folders


def test_opening_a_folder_without_an_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IndexNotFoundError, match="build one with"):
        Index.open(tmp_path)


def every_file(root: Path) -> list[Path]:
    return [root / entry.path for entry in format.read_manifest(root).files() if entry.bytes]


def test_open_finds_truncated_and_missing_files(root: Path) -> None:
    for path in every_file(root):
        content = path.read_bytes()
        path.write_bytes(content[:-1])
        with pytest.raises(IndexCorruptError, match=path.name):
            Index.open(root)
        path.unlink()
        with pytest.raises(IndexCorruptError, match=path.name):
            Index.open(root)
        path.write_bytes(content)
    Index.open(root).verify()


def test_verify_finds_altered_files(root: Path) -> None:
    index = Index.open(root)
    for path in every_file(root):
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(IndexCorruptError, match=path.name):
            index.verify()
        path.write_bytes(content)
    assert index.verify() == len(list(index.manifest.files()))


def test_verify_checks_the_newest_state_and_keeps_its_own(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = Index.open(root), Index.open(root)
    writer.add(passages_of({"ice": "frost"}), ENCODER)
    outdated, read = [writer.manifest], format.read_manifest
    writer.compact()  # removes the files of the state before
    monkeypatch.setattr(format, "read_manifest", lambda root: outdated.pop() if outdated else read(root))
    assert reader.verify() == len(list(writer.manifest.files()))
    assert not outdated
    assert "ice" not in reader
    assert_holds(reader, TEXTS)


def test_a_corrupt_index_can_be_overwritten(root: Path) -> None:
    (root / format.MANIFEST).write_text("{")
    with pytest.raises(IndexCorruptError, match="rebuild the index"):
        Index.open(root)
    assert_holds(Index.build(root, passages_of({"new": "text"}), ENCODER, overwrite=True), {"new": "text"})


@pytest.mark.parametrize("content", ["{", '{"format": "baleen-index", "format_version": 1}'])
def test_a_failed_rebuild_keeps_a_corrupt_or_older_index(root: Path, content: str) -> None:
    (root / format.MANIFEST).write_text(content)
    before = {name: (root / name).read_bytes() for name in files_under(root)}
    folders = set(root.iterdir())
    with pytest.raises(OSError, match="gone"):
        Index.build(root, failing(passages_of(random_texts(12))), ENCODER, overwrite=True)
    assert set(root.iterdir()) == folders
    assert {name: (root / name).read_bytes() for name in files_under(root)} == before


def test_a_foreign_manifest_is_never_overwritten(root: Path) -> None:
    (root / format.MANIFEST).write_text('{"format": "of others"}')
    before = files_under(root)
    for overwrite in (True, False):
        with pytest.raises(IndexFormatError):
            Index.build(root, passages_of({"new": "text"}), ENCODER, overwrite=overwrite)
    assert files_under(root) == before


def test_info_counts(root: Path) -> None:
    index = Index.open(root)
    index.add(passages_of({"ice": "frost bear"}), ENCODER)
    index.delete(["sea"])
    info = index.info()
    assert info["path"] == str(root)
    assert {key: info[key] for key in ("dim", "bits", "passages", "deleted", "segments", "vectors", "generation")} == {
        "dim": 16, "bits": 2, "passages": 4, "deleted": 1, "segments": 2, "vectors": 12, "generation": 3,
    }  # fmt: skip
    assert info["encoder"] == ENCODER.fingerprint
    assert info["focus"] == {"query": 32, "facts": 8}
    assert info["bytes"] == index.bytes
