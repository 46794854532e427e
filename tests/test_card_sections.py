"""The sections of a card: each says what its files say, and nothing of what they do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baleen.card import advice, describing, making, measuring
from baleen.card.evaluations import read_evaluation
from baleen.card.provenance import Backbone, known_backbone, short_path
from baleen.card.subject import Subject, read_subject
from baleen.errors import CheckpointError
from card_fakes import ENVIRONMENT, PLAN, SUMMARY, digest_of, document, write_document, write_fake_model, write_run


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    return read_subject(write_run(tmp_path / "run"), name="small")


def alone(root: Path, backbone: str = "bge-small-en-v1.5") -> Subject:
    """A retriever over files of somebody's own, without a model's folder, counts or environments."""
    sources = [{"dataset": "own", "file": "mine.jsonl"}]
    plan = {
        "hops": 1,
        "collections": [{"name": "mine", "corpus": ["mine.jsonl"], "train": sources}],
        "retriever": {"backbone": backbone},
        "reading": None,
    }
    stages = {"model": {"components": {"retriever": "retriever"}, "seconds": 1.0}}
    run = write_run(root, plan=plan, summary={"stages": stages}, environment=None)
    (run / "model" / "config.json").unlink()
    return read_subject(run)


def evaluated(subject: Subject, documents: Sequence[dict[str, Any]]) -> Subject:
    files = (subject.run.root / f"e{number}.json" for number in range(len(documents)))
    found = [read_evaluation(write_document(file, told)) for file, told in zip(files, documents, strict=True)]
    return Subject(subject.name, subject.run, subject.weights, subject.digest, evaluations=tuple(found))


# What is known of names


@pytest.mark.parametrize(
    ("path", "short"),
    [("/home/a/kit/hover/dev.json", "hover/dev.json"), ("../dev.json", "dev.json"), ("/dev.json", "dev.json")],
)
def test_of_a_path_the_end_is_told(path: str, short: str) -> None:
    assert short_path(path) == short


def test_backbones_are_known_by_the_end_of_their_names() -> None:
    for name in ("bge-small-en-v1.5", "BAAI/bge-small-en-v1.5", "/a/b/bge-small-en-v1.5"):
        assert known_backbone(name) == Backbone("BAAI/bge-small-en-v1.5", "MIT", "en")
    assert known_backbone("my-own") is None


# What it is about


def test_a_model_that_is_named_takes_the_place_of_the_runs_own(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    shipped = write_fake_model(tmp_path / "baleen-tiny")
    (shipped / "demo-index").mkdir()
    (shipped / "demo-index" / "manifest.json").write_text("{}")
    found = read_subject(run, model=shipped)
    assert (found.name, found.holds_index) == ("baleen-tiny", True)
    assert found.digest == digest_of(run) == read_subject(run).digest, "it is the same model, in another place"
    assert read_subject(run).name == "run"
    with pytest.raises(CheckpointError):
        read_subject(run, model=tmp_path / "absent")


def test_languages_are_known_where_all_backbones_are(subject: Subject, tmp_path: Path) -> None:
    assert subject.languages == ["en"]
    assert alone(tmp_path / "alone", "my-own").languages == []


# Describing


def test_a_model_is_introduced_by_what_it_does_and_came_from(subject: Subject) -> None:
    told = describing.introduction(subject)
    assert "it finds passages, scores the sentences of a passage, " in told
    assert "reads a verdict off the facts and reads an answer off the facts." in told
    assert told.endswith("for up to 2 hops, starting from `bge-small-en-v1.5` and `ms-marco-MiniLM-L-12-v2`.")


def test_the_code_is_python_that_fits_the_components(subject: Subject, tmp_path: Path) -> None:
    for who, call in ((subject, "baleen.verify("), (alone(tmp_path / "alone"), "retriever.search(")):
        told = describing.use(who)
        code = told.partition("```python\n")[2].removesuffix("```")
        compile(code, "card", "exec")
        assert call in code
        assert f'load("{who.name}"' in code
        assert f"--model {who.name}" in told


def test_components_have_what_was_counted_in_their_weights(subject: Subject) -> None:
    told = describing.components(subject) or ""
    assert "| retriever | finds passages | `retriever` | 12 |" in told
    assert "| verifier | reads a verdict off the facts | `reading` | 4 |" in told
    sizes = [each.size for each in subject.weights]
    assert f"| `reading` | bert, 12 x 384 | 15 | float16 | {sizes[1]:,} |" in told
    assert f"{sum(sizes):,} bytes in all." in told


def test_a_mean_of_trainings_says_so(subject: Subject) -> None:
    retriever, reading = subject.weights
    mean = replace(reading, averaged=((0.6, "a" * 64), (0.4, "b" * 64)))
    told = describing.components(replace(subject, weights=(retriever, mean))) or ""
    assert "`reading` are a mean (`baleen average`): 60% of those of sha256 `aaaaaaaaaaaa` and 40% of" in told
    assert "average" not in (describing.components(subject) or "")


def test_a_difference_says_to_what(subject: Subject) -> None:
    retriever, reading = subject.weights
    apart = replace(reading, folder="readers", base="../reading")
    told = describing.components(replace(subject, weights=(retriever, reading, apart))) or ""
    assert told.count("is written as its difference to") == 1
    assert "`readers` is written as its difference to `reading`" in told


def test_settings_that_come_with_a_model_are_told(subject: Subject) -> None:
    settings = {"run": {"ranked_by": "reading"}, "condenser": {"threshold": [-2.0, -0.5]}}
    told = describing.components(replace(subject, settings=settings)) or ""
    assert '| `run.ranked_by` | `"reading"` |' in told
    assert "| `condenser.threshold` | `[-2.0, -0.5]` |" in told
    assert "setting" not in (describing.components(replace(subject, settings={})) or "")


# Making


def test_data_stand_by_file_as_the_plan_has_them(subject: Subject) -> None:
    told = making.data(subject)
    assert "| wiki | `wiki/part-0.jsonl.gz`, `wiki/part-1.jsonl.gz` | 354,282 |" in told
    assert "| made | `wiki/part-0.jsonl.gz` | 80,000 (`sample = 80000`) |" in told
    for row in (
        "| HoVer | `hover/train.json` | training | 229 | 1 | - | plan |",
        "| EX-FEVER | `exfever/train.json` | training | 1,200 | 0.5 | 1,200 | plan |",
        "| synthetic | `synthetic.jsonl.gz` | training | 8,000 | 0.3 | 8,000 | given |",
        "| synthetic | `synthetic-2.jsonl.gz` | training of facts, verifier and answerer alone | 20,000 | 0.1 | - | plan |",
        "| HoVer | `hover/dev.json` | measuring | 377 | 1 | - | plan |",
    ):
        assert row in told
    assert "**Synthetic**: `synthetic.jsonl.gz`, `synthetic-2.jsonl.gz`. No person wrote these" in told
    assert "somebody" not in told, "where files lay is nobody's business"


def test_what_was_not_counted_is_a_dash_and_nothing_is_called_synthetic(tmp_path: Path) -> None:
    told = making.data(alone(tmp_path))
    assert "| mine | `mine.jsonl` | - |" in told
    assert "| own | `mine.jsonl` | training | - | 1 | - | plan |" in told
    assert "ynthetic" not in told


def test_trainings_have_their_settings_and_their_speed(subject: Subject) -> None:
    told = making.training(subject)
    for row in (
        "| retriever | 3,000 | 64 | 4e-05 | 7 | 9,000 | 3 min 20 s | 14.5 | 444,000 | 0.123 |",
        "| reading | 4,000 | 24 | 5e-05 | 7 | 1,034 | 1 min 1 s | - | - | 1 |",
        "| HoVer | 60.5 | 90.0 |",
        "| measuring questions of | hop 1 (25) | hop 2 (10) |",
        "| sentences: the best one is gold | 62.5 |",
        "| verifier: accuracy | 70.1 |",
    ):
        assert row in told
    assert "All stages: start 3.0 s, retriever 5 min 0 s, " in told
    assert told.count("the best one is gold") == 1, "the last stage that trained a head counts"


def test_a_run_says_where_it_was_done_each_time(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    told = making.environments(read_subject(run)) or ""
    assert "| since 2026-11-15 |  |" in told
    assert "| device | NVIDIA H200 |" in told
    assert "| processor | Some Processor, 16 cores, 128 GB |" in told
    assert "| versions | python 3.11.9, torch 2.11.0 |" in told
    assert "| commit | `0123456789abcdef` |" in told
    again = {**ENVIRONMENT, "changed": True, "processes": 4, "cuda": None, "baleen": "not installed"}
    write_document(run / "environment.json", {"environments": [ENVIRONMENT, again, {"commit": None}]})
    told = making.environments(read_subject(run)) or ""
    assert told.count("| since ") == 3
    assert "`0123456789abcdef`, with changes that were not committed" in told
    assert "NVIDIA H200, 4 processes" in told
    assert told.endswith("| commit | not known |"), "what is not known is left out"
    assert "None" not in told
    assert "not installed" not in told


# Measuring


def test_results_of_one_corpus_share_a_table(subject: Subject) -> None:
    ours, other = document(model=subject.digest), document(model="another")
    told = measuring.results(evaluated(subject, [ours, other, {**ours, "passages": 5}])) or ""
    assert told.count("### HoVer: `hover/dev.json` over 354,282 passages") == 1
    assert "### HoVer: `hover/dev.json` over 5 passages" in told
    assert "| e0 | 377 | 88.2 (of 200) | 61.0 |\n| e1 | 377 | 88.2 (of 200) | 61.0 |" in told
    assert "| e0 | 88.2 (of 200) | 88.2 (of 200) | 70.0 (of 90) |" in told
    assert "95% intervals of retrieval@100 (bootstrap over questions): e0 84.0 to 92.5; e1 84.0 to 92.5." in told
    assert "# e0\nbaleen eval hover hover/dev.json --index INDEX --model small " in told
    assert "# e1\nbaleen eval hover hover/dev.json --index INDEX --model ANOTHER " in told
    assert "Of another model than this, or of this one with other settings: e1." in told


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("/elsewhere/hover/dev.json.gz", "The run measured itself on a file of this name"),
        ("kit/hover/train.json", "**The model was trained on a file of this name**"),
        ("kit/hover/test.json", None),
    ],
)
def test_questions_that_the_run_had_seen_are_said_to_be_so(file: str, said: str | None, subject: Subject) -> None:
    told = measuring.results(evaluated(subject, [document(file=file)])) or ""
    assert ("of this name" in told) == (said is not None)
    assert said is None or said in told


def test_without_intervals_or_hops_nothing_is_said_of_them(subject: Subject) -> None:
    told = measuring.results(evaluated(subject, [document(intervals={}, by_hops={})])) or ""
    assert "95%" not in told
    assert "run, " not in told


def test_without_the_models_folder_nobody_knows_whose_figures_they_are(tmp_path: Path) -> None:
    told = measuring.results(evaluated(alone(tmp_path), [document(model="a")])) or ""
    assert "was not checked" in told
    assert "--model MODEL" in told


# Advice


def test_limits_are_those_of_what_the_model_has_and_was_trained_on(subject: Subject, tmp_path: Path) -> None:
    told = advice.limits(subject)
    for part in (
        "**Small encoders** (0.0M and 0.0M",
        "no proof",
        "does not mean *false*",
        "Wikipedia",
        "(28,000 of 29,429)",
    ):
        assert part in told
    told = advice.limits(alone(tmp_path))
    for part in ("Small", "verdict", "*false*", "Wikipedia", "ynthetic", "Answers"):
        assert part not in told
    assert "The backbones' biases" in told


def test_a_difference_is_no_encoder_of_its_own(subject: Subject) -> None:
    apart = replace(subject.weights[-1], folder="readers", base="../reading")
    assert advice.limits(replace(subject, weights=(*subject.weights, apart))) == advice.limits(subject)


def test_a_share_is_told_only_where_everything_was_counted_apart(tmp_path: Path) -> None:
    summary = {**SUMMARY, "data": {**SUMMARY["data"], "wiki": {}}}
    assert "**Synthetic training questions**." in advice.limits(
        read_subject(write_run(tmp_path / "a", summary=summary))
    )
    (wiki, made) = PLAN["collections"]
    mixed = {**made, "train": [*made["train"], {"dataset": "own", "file": "people.jsonl"}]}
    run = write_run(tmp_path / "b", plan={**PLAN, "collections": [wiki, mixed]})
    assert "**Synthetic training questions**." in advice.limits(read_subject(run))


def test_a_verifier_of_three_labels_is_not_said_to_have_two(tmp_path: Path) -> None:
    plan = {**PLAN, "reading": {**PLAN["reading"], "labels": 3}}
    assert "Two labels" not in advice.limits(read_subject(write_run(tmp_path, plan=plan)))


def test_uses_are_those_of_the_components(subject: Subject, tmp_path: Path) -> None:
    retriever = alone(tmp_path, "my-own")
    assert "verdict" in advice.intended(subject)
    assert "verdict" not in advice.intended(retriever)
    assert "Languages other than English" in advice.out_of_scope(subject)
    assert "Languages" not in advice.out_of_scope(retriever), "which ones it knows is not known"
    for who in (subject, retriever):
        for part in ("Decisions about people", "Medical, legal", "after the corpus was written"):
            assert part in advice.out_of_scope(who)


def test_licences_are_of_code_weights_and_data(subject: Subject, tmp_path: Path) -> None:
    told = advice.licences(subject, "MIT").splitlines()
    assert told[:2] == [
        "- Code: MIT.",
        "- Weights: MIT, made from `BAAI/bge-small-en-v1.5` (MIT) and "
        "`cross-encoder/ms-marco-MiniLM-L-12-v2` (Apache-2.0).",
    ]
    assert "- HoVer: CC BY-SA 4.0." in told
    assert "- EX-FEVER: MIT." in told
    assert not any("MuSiQue" in line or "index" in line for line in told)
    other = advice.licences(alone(tmp_path, "/a/my-own"), "x")
    assert "`my-own` (its licence is not known to this card)" in other
    assert "Other files of questions: this card does not know their licences" in other


def test_claims_restated_from_questions_are_told_apart_from_synthetic_ones(tmp_path: Path) -> None:
    first, *others = PLAN["collections"]
    restated = {"dataset": "own", "file": "kit/restated-hotpotqa.jsonl.gz", "weight": 0.5}
    plan = {**PLAN, "collections": [{**first, "train": [*first["train"], restated]}, *others]}
    subject = read_subject(write_run(tmp_path, plan=plan))
    told = making.data(subject)
    assert "| restated | `kit/restated-hotpotqa.jsonl.gz` | training |" in told
    assert "**Restated**: `kit/restated-hotpotqa.jsonl.gz`. A program made these claims" in told
    assert "restated" not in told.partition("**Synthetic**")[2].partition("\n")[0]
    said = advice.licences(subject, "MIT")
    assert "- Restated claims: as the questions that they are made of." in said
    assert "Other files of questions" not in said
