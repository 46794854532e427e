"""A whole card: its front matter, its sections in order, what is left out, and where it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from baleen.card.evaluations import read_evaluation
from baleen.card.subject import read_subject
from baleen.card.writing import Card, make_card, write_card
from baleen.errors import ConfigError
from card_fakes import ENVIRONMENT, PLAN, SUMMARY, digest_of, document, write_document, write_run

SECTIONS = [
    *("Use", "Components", "Data", "Training", "Hardware and versions", "Results", "Intended use", "Out of scope"),
    *("Limits and biases", "Licences"),
]


def titles(card: Card) -> list[str]:
    return [line.removeprefix("## ") for line in card.text.splitlines() if line.startswith("## ")]


def front_matter(card: Card) -> list[str]:
    opening, matter, _ = card.text.split("---\n", 2)
    assert opening == ""
    return matter.splitlines()


def test_a_card_has_every_section_where_every_file_is_there(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    found = read_evaluation(write_document(tmp_path / "hover.json", document(model=digest_of(run))))
    card = make_card(read_subject(run, [found], name="small"))
    assert titles(card) == SECTIONS
    assert card.left_out == ()
    assert "\n# small\n" in card.text
    assert card.text.endswith(
        "Written by `baleen card` out of `plan.json`, `environment.json` and `summary.json` of the run, and of 1 document "
        "of `baleen eval --json`; no figure in it was typed in by hand.\n"
    )
    assert "\n\n\n" not in card.text
    assert "None " not in card.text.replace("None of these", "")


def test_front_matter_is_as_the_hub_reads_it(tmp_path: Path) -> None:
    assert front_matter(make_card(read_subject(write_run(tmp_path)))) == [
        "license: mit",
        "language:",
        "  - en",
        "library_name: baleen",
        "tags:",
        "  - multi-hop",
        "  - retrieval",
        "  - late-interaction",
        "  - fact-checking",
        "  - question-answering",
        "  - reranking",
        "base_model:",
        "  - BAAI/bge-small-en-v1.5",
        "  - cross-encoder/ms-marco-MiniLM-L-12-v2",
        "datasets:",
        "  - hover-nlp/hover",
    ]


def test_a_backbone_that_is_not_known_leaves_the_licence_open(tmp_path: Path) -> None:
    plan = {**PLAN, "retriever": {**PLAN["retriever"], "backbone": "my-own"}}
    subject = read_subject(write_run(tmp_path, plan=plan))
    told = front_matter(make_card(subject))
    assert told[0] == "license: other"
    assert "language:" not in told
    assert "Weights: to be settled by whoever passes them on" in make_card(subject).text
    assert front_matter(make_card(subject, "odd: yes"))[0] == 'license: "odd: yes"'
    assert "Weights: odd: yes, made from" in make_card(subject, "odd: yes").text


def test_what_has_no_files_is_left_out_and_said_to_be(tmp_path: Path) -> None:
    summary = {key: value for key, value in SUMMARY.items() if key != "data"}
    run = write_run(tmp_path, summary=summary, environment=None)
    (run / "model" / "config.json").unlink()
    card = make_card(read_subject(run))
    assert titles(card) == [each for each in SECTIONS if each not in ("Components", "Hardware and versions", "Results")]
    assert [line.partition(":")[0] for line in card.left_out] == [
        *("components", "counts of passages and questions", "hardware and versions", "results")
    ]


def test_a_commit_that_is_not_known_is_said_to_be_so(tmp_path: Path) -> None:
    card = make_card(read_subject(write_run(tmp_path, environment={**ENVIRONMENT, "commit": None})))
    assert "| commit | not known |" in card.text
    assert [line.partition(":")[0] for line in card.left_out] == ["the commit", "results"]


def test_results_of_other_models_alone_are_said_to_be_so(tmp_path: Path) -> None:
    found = read_evaluation(write_document(tmp_path / "hover.json", document(model="another")))
    card = make_card(read_subject(write_run(tmp_path / "run"), [found]))
    assert [line.partition(":")[0] for line in card.left_out] == ["results of this very model"]
    assert "Results" in titles(card)


def test_a_card_takes_the_place_of_a_card_and_of_nothing_else(tmp_path: Path) -> None:
    card, file = make_card(read_subject(write_run(tmp_path / "run"))), tmp_path / "README.md"
    write_card(card, file)
    write_card(card, file)
    assert file.read_text() == card.text
    file.write_text("Mine.\n")
    with pytest.raises(ConfigError, match="README.md: holds something other than a card of ours; choose another --out"):
        write_card(card, file)
    assert file.read_text() == "Mine.\n"


def test_a_place_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a folder; name the file in it, such as .*README.md"):
        write_card(Card("x"), tmp_path)
    with pytest.raises(ConfigError, match="there is no folder"):
        write_card(Card("x"), tmp_path / "absent" / "README.md")


READY = {**PLAN, "retriever": {"ready": "runs/first/model"}}


def test_a_retriever_of_the_models_own_name_is_that_of_an_earlier_one(tmp_path: Path) -> None:
    run = write_run(tmp_path, plan={**PLAN, "retriever": {"ready": "ours"}})
    assert "Its retriever is that of an earlier `ours`, taken" in make_card(read_subject(run, name="ours")).text
    assert "Its retriever is that of `ours`, taken" in make_card(read_subject(run, name="theirs")).text


@pytest.mark.parametrize(
    ("card", "made_from"),
    [
        ("---\nlicense: mit\nbase_model:\n  - BAAI/bge-small-en-v1.5\ndatasets:\n  - other\n---\n\n# It\n", ["BAAI/bge-small-en-v1.5"]),
        ('---\nbase_model: "BAAI/bge-small-en-v1.5"\nlicense: mit\n---\n', ["BAAI/bge-small-en-v1.5"]),
        ("---\nlicense: mit\n---\n\nbase_model:\n  - in the text, which tells nothing\n", []),
        ("No front matter.\n", []),
        ("", []),
    ],
)  # fmt: skip
def test_a_ready_retriever_that_has_a_card_is_made_from_what_that_says(
    tmp_path: Path, card: str, made_from: list[str]
) -> None:
    run = write_run(tmp_path, plan=READY)
    (run / "model" / "retriever" / "README.md").write_text(card)
    made = make_card(read_subject(run))
    assert "`first/model`, taken as it is: [its own card](retriever/README.md) tells of its training." in made.text
    assert front_matter(made)[0] == ("license: mit" if made_from else "license: other")
    named = [*made_from, "cross-encoder/ms-marco-MiniLM-L-12-v2"]
    assert [line for line in front_matter(made) if "/bge" in line or "/ms-" in line] == [
        f"  - {name}" for name in named
    ]


def test_a_ready_retriever_without_a_card_is_all_that_is_known_of_it(tmp_path: Path) -> None:
    made = make_card(read_subject(write_run(tmp_path, plan=READY)))
    assert "this card is not about its training" in made.text
    assert "`first/model` (its licence is not known to this card)" in made.text
