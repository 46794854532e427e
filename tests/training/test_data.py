"""Training data of several collections: unique ids, samples, limits, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from baleen.core.errors import ConfigError, CorpusError, DatasetError
from baleen.core.types import Passage
from baleen.data import corpus
from baleen.training.data import CollectionPlan, Source, load_training_data
from fakes import CORPUS

HARBOUR = [
    Passage.from_sentences("p0", "Brigg", ["Brigg is a ship.", "It sank off Holm."]),
    Passage.from_sentences("p1", "Holm", ["Holm is an island."]),
]


def write(file: Path, *questions: dict[str, Any]) -> None:
    file.write_text("".join(json.dumps(question) + "\n" for question in questions), "utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two collections that use equal ids for different things."""
    corpus.write_passages(CORPUS, tmp_path / "town.jsonl")
    corpus.write_passages(HARBOUR, tmp_path / "harbour.jsonl")
    write(tmp_path / "town_train.jsonl", {"id": 1, "text": "Who teaches in Vardal?", "gold": ["p1", "p0"]})
    write(
        tmp_path / "harbour_train.jsonl",
        {
            "id": 1,
            "text": "Off what did Brigg sink?",
            "gold": ["p0", "Holm"],
            "facts": [["p0", 1]],
            "order": ["p0", "p1"],
        },
    )
    return tmp_path


def own(*files: str) -> tuple[Source, ...]:
    return tuple(Source("own", f"{file}.jsonl") for file in files)


TOWN = CollectionPlan("town", ("town.jsonl",), own("town_train"))
SEA = CollectionPlan("sea", ("harbour.jsonl",), own("harbour_train"), own("harbour_train"))


def test_equal_ids_of_two_collections_stay_distinct(root: Path) -> None:
    data = load_training_data([TOWN, SEA], root)
    assert data.passage("town/p0").title == "Lena Orlova"
    assert data.passage("sea/p0").title == "Brigg"
    assert data.pids["sea"] == ["sea/p0", "sea/p1"]
    assert len(data.passages) == len(CORPUS) + len(HARBOUR)
    assert [(q.example.qid, q.collection) for q in data.train] == [("town/own/1", "town"), ("sea/own/1", "sea")]


def test_gold_facts_and_order_get_collection_ids(root: Path) -> None:
    (question,) = load_training_data([TOWN, SEA], root).dev
    assert question.example.gold == ("sea/p0", "sea/p1")
    assert question.example.facts == (("sea/p0", 1),)
    assert question.example.order == ("sea/p0", "sea/p1")
    assert question.dataset == "own"


def test_ids_may_contain_slashes(root: Path) -> None:
    corpus.write_passages([Passage.from_sentences("a/b", "Slash", ["It has one."])], root / "slash.jsonl")
    write(root / "slash_train.jsonl", {"id": "x/y", "text": "Which?", "gold": ["a/b"]})
    data = load_training_data([CollectionPlan("c", ("slash.jsonl",), own("slash_train"))], root)
    assert data.train[0].example.gold == ("c/a/b",)
    assert data.passage("c/a/b").title == "Slash"


def test_a_missing_gold_passage_fails_or_drops_its_question(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(
        root / "more.jsonl",
        {"id": 2, "text": "Where?", "gold": ["Atlantis"]},
        {"id": 3, "text": "Who?", "gold": ["p1"]},
    )
    plan = CollectionPlan("sea", ("harbour.jsonl",), own("more"))
    with pytest.raises(DatasetError, match="'Atlantis' .of 2."):
        load_training_data([plan], root)
    assert [question.example.qid for question in load_training_data([plan], root, "drop").train] == ["sea/own/3"]
    assert "more.jsonl: dropped 1 questions" in caplog.text


def test_no_usable_example_is_refused(root: Path) -> None:
    write(root / "lost.jsonl", {"id": 2, "text": "Where?", "gold": ["Atlantis"]})
    with pytest.raises(DatasetError, match="nothing to train on"):
        load_training_data([CollectionPlan("sea", ("harbour.jsonl",), own("lost"))], root, "drop")
    with pytest.raises(DatasetError, match="nothing to train on"):
        load_training_data([CollectionPlan("sea", ("harbour.jsonl",))], root)


def test_a_question_in_two_files_is_refused(root: Path) -> None:
    write(root / "again.jsonl", {"id": 1, "text": "Again?", "gold": ["p1"]})
    with pytest.raises(DatasetError, match="again.jsonl: the id '1' of own is in another file too"):
        load_training_data([CollectionPlan("sea", ("harbour.jsonl",), own("harbour_train", "again"))], root)


def many(root: Path, count: int = 40) -> None:
    questions = ({"id": n, "text": f"Which {n}?", "gold": ["p0", "p1"], "order": ["p1", "p0"]} for n in range(count))
    write(root / "many.jsonl", *questions)


def test_a_sample_is_fixed_and_has_every_gold_passage(root: Path) -> None:
    corpus.write_passages(
        [Passage.from_sentences(f"p{n}", f"Page {n}", ["A page."]) for n in range(40)], root / "pages.jsonl"
    )
    write(root / "asked.jsonl", {"id": 1, "text": "Which?", "gold": ["p31", "p7"]})

    def kept(sample: int | None) -> list[int]:
        plan = CollectionPlan("pages", ("pages.jsonl",), own("asked"), sample=sample)
        data = load_training_data([plan], root)
        assert set(data.passages) == set(data.pids["pages"])
        return [int(pid.removeprefix("pages/p")) for pid in data.pids["pages"]]

    ten = kept(10)
    assert len(ten) == 10
    assert {7, 31} <= set(ten)
    assert ten == sorted(ten)
    assert kept(10) == ten
    assert set(ten) <= set(kept(20)), "a larger sample has all of a smaller one"
    assert kept(2) == kept(1) == [7, 31], "gold passages stay, however few are asked for"
    assert kept(None) == kept(40) == kept(100) == list(range(40))


def test_unsearched_questions_add_no_searched_passages(root: Path) -> None:
    corpus.write_passages(
        [Passage.from_sentences(f"p{n}", f"Page {n}", ["A page."]) for n in range(40)], root / "pages.jsonl"
    )
    write(root / "asked.jsonl", {"id": 1, "text": "Which?", "gold": ["p31"]})
    write(root / "read.jsonl", {"id": 2, "text": "Which two?", "gold": ["p7", "p8"]})
    sources = (Source("own", "asked.jsonl"), Source("own", "read.jsonl", weight=0.5, searched=False))
    data = load_training_data([CollectionPlan("pages", ("pages.jsonl",), sources, sample=1)], root)
    assert [each.example.text for each in data.train] == ["Which?"]
    assert [each.example.text for each in data.unsearched] == ["Which two?"]
    assert data.pids == {"pages": ["pages/p31"]}
    assert sorted(data.passages) == ["pages/p31", "pages/p7", "pages/p8"]
    assert data.weights == {"pages/own/2": 0.5}


def test_samples_of_one_corpus_overlap_whatever_is_gold(root: Path) -> None:
    corpus.write_passages(
        [Passage.from_sentences(f"p{n}", f"Page {n}", ["A page."]) for n in range(40)], root / "pages.jsonl"
    )
    write(root / "few.jsonl", {"id": 1, "text": "Which?", "gold": ["p31"]})
    write(root / "many.jsonl", {"id": 1, "text": "Which?", "gold": [f"p{n}" for n in range(10, 15)]})
    few, many = (
        set(load_training_data([CollectionPlan("pages", ("pages.jsonl",), own(name), sample=20)], root).pids["pages"])
        for name in ("few", "many")
    )
    assert len(few & many) >= 14, "but for the gold ones, which take the places of the last that were drawn"


def test_unsearched_dev_questions_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"dev\.jsonl has searched = false"):
        CollectionPlan("pages", ("pages.jsonl",), dev=(Source("own", "dev.jsonl", searched=False),))


def test_data_without_searched_questions_is_refused(root: Path) -> None:
    plan = CollectionPlan("town", ("town.jsonl",), (Source("own", "town_train.jsonl", searched=False),))
    with pytest.raises(DatasetError, match="nothing to train on"):
        load_training_data([plan], root)


def test_an_empty_sample_is_refused() -> None:
    with pytest.raises(ConfigError, match="sample = 0"):
        CollectionPlan("pages", ("pages.jsonl",), sample=0)


def test_a_limit_keeps_a_fixed_random_part_in_order(root: Path) -> None:
    many(root)

    def kept(limit: int | None) -> list[int]:
        plan = CollectionPlan("sea", ("harbour.jsonl",), (Source("own", "many.jsonl", limit=limit),))
        return [int(question.example.qid.rpartition("/")[2]) for question in load_training_data([plan], root).train]

    few = kept(10)
    assert few == kept(10) == sorted(few)
    assert len(set(few)) == 10
    assert few != list(range(10)), "not the first of the file"
    assert kept(40) == kept(41) == kept(None) == list(range(40))


def test_questions_have_the_weight_and_the_order_of_their_file(root: Path) -> None:
    many(root, 3)
    files = Source("own", "many.jsonl", weight=0.25, order="given"), Source("own", "harbour_train.jsonl")
    write(root / "harbour_train.jsonl", {"id": "a", "text": "Off what?", "gold": ["p0"], "order": ["p0"], "seen": 1})
    data = load_training_data([CollectionPlan("sea", ("harbour.jsonl",), files)], root)
    assert data.weights == {f"sea/own/{number}": 0.25 for number in range(3)}
    assert [question.ordered for question in data.train] == [True, True, True, False]


def test_a_given_order_is_ignored_without_one_in_the_file(root: Path) -> None:
    plan = CollectionPlan("town", ("town.jsonl",), (Source("own", "town_train.jsonl", order="given"),))
    assert [question.ordered for question in load_training_data([plan], root).train] == [False]


def test_a_missing_corpus_is_refused(root: Path) -> None:
    with pytest.raises(CorpusError, match="nowhere.jsonl: no such file"):
        load_training_data([CollectionPlan("sea", ("nowhere.jsonl",), own("harbour_train"))], root)


@pytest.mark.parametrize("name", ["", "a/b"])
def test_ambiguous_collection_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="should name a collection"):
        CollectionPlan(name, ("town.jsonl",))


def test_two_collections_with_one_name_are_refused(root: Path) -> None:
    with pytest.raises(ConfigError, match="named town, town; expected a different name for each"):
        load_training_data([TOWN, TOWN], root)
