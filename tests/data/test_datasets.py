"""Datasets: reading, refusals, and matching gold passages to a corpus."""

from __future__ import annotations

import gzip
import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baleen.core.errors import DatasetError
from baleen.core.types import Passage
from baleen.data.corpus import write_lines
from baleen.data.example import LABELS, Example
from baleen.data.formats import DATASETS, read_examples
from baleen.data.gold import Catalogue, GoldReport, resolve_gold
from fakes import CORPUS

HOTPOTQA = {
    "_id": "5a8b57f2",
    "question": "Were Scott Derrickson and Ed Wood of the same nationality?",
    "answer": "yes",
    "type": "comparison",
    "level": "hard",
    "supporting_facts": [["Scott Derrickson", 0], ["Ed Wood", 0], ["Ed Wood", 2]],
    "context": [["Ed Wood", ["Edward Davis Wood Jr. was a filmmaker.", " He wrote.", " He was American."]]],
}
HOVER = {
    "uid": "330ca632",
    "claim": "Skagen Painter Peder Severin Krøyer favored naturalism along with Theodor Philipsen.",
    "supporting_facts": [["Kristian Zahrtmann", 0], ["Kristian Zahrtmann", 1], ["Ossian Elgström", 2]],
    "label": "SUPPORTED",
    "num_hops": 3,
    "hpqa_id": "5ab7a86d",
}
TWOWIKI = {
    "_id": "9b3d9fa4",
    "question": "Which film has the director died earlier, Payment On Demand or My Cousin From Warsaw?",
    "answer": "My Cousin From Warsaw",
    "type": "bridge_comparison",
    "supporting_facts": [["Payment on Demand", 0], ["Carl Boese", 0]],
    "evidences": [["Payment on Demand", "director", "Curtis Bernhardt"]],
    "context": [],
}
STEPS = [
    {"id": 574419, "question": "Van Hook Township >> county", "answer": "Mountrail", "paragraph_support_idx": 8},
    {"id": 270105, "question": "#1 >> capital", "answer": "Stanley", "paragraph_support_idx": 1},
]
MUSIQUE = {
    "id": "2hop__574419_270105",
    "question": "What is the seat of the county where Van Hook Township is located?",
    "answer": "Stanley",
    "answerable": True,
    "question_decomposition": STEPS,
    "paragraphs": [
        {"idx": 0, "title": "Minot", "paragraph_text": "Minot is a city.", "is_supporting": False},
        {"idx": 1, "title": "Mountrail County", "paragraph_text": "Its seat is Stanley.", "is_supporting": True},
        {"idx": 8, "title": "Van Hook Township", "paragraph_text": "It is in Mountrail.", "is_supporting": True},
    ],
}
MUSIQUE_BY_ID = {
    **{key: MUSIQUE[key] for key in ("id", "question", "answer", "question_decomposition")},
    "hops": 2,
    "gold_ids": ["40", "7"],
}
EXFEVER = {
    "id": "exfever-10",
    "claim": "Randy Orton is signed with an American wrestling promotion.",
    "label": "SUPPORT",
    "explanation": "Randy Orton is signed to WWE.",
    "gold_titles": ["Randy Orton", "WWE"],
}
OWN = {
    "id": 7,
    "text": "The mayor of Vardal wrote an opera.",
    "gold": ["p2", "Ivo Brandt"],
    "facts": [["p2", 1], ["Ivo Brandt", 1]],
    "label": "supported",
    "answer": "The Deep Choir",
    "hops": 2,
    "kind": "bridge",
    "order": ["p2", "Ivo Brandt"],
}
SAMPLES = {"hotpotqa": HOTPOTQA, "hover": HOVER, "2wiki": TWOWIKI, "musique": MUSIQUE, "exfever": EXFEVER, "own": OWN}


def put(folder: Path, *records: Any, name: str = "set.json") -> Path:
    """A list of records in a .json file, or one per line in a .jsonl; compressed if the name says so."""
    lines = [json.dumps(record) for record in records]
    text = "\n".join(lines) if ".jsonl" in name else f"[{', '.join(lines)}]"
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def one(folder: Path, dataset: str, record: Any) -> Example:
    (example,) = read_examples(dataset, put(folder, record))
    return example


def refusal(dataset: str, path: Path) -> str:
    """The message of a refusal, which is one line and names the file once."""
    with pytest.raises(DatasetError) as caught:
        read_examples(dataset, path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message.removeprefix(str(path))


class TestShapes:
    def test_hotpotqa(self, tmp_path: Path) -> None:
        assert one(tmp_path, "hotpotqa", HOTPOTQA) == Example(
            qid="5a8b57f2",
            text="Were Scott Derrickson and Ed Wood of the same nationality?",
            gold=("Scott Derrickson", "Ed Wood"),
            facts=(("Scott Derrickson", 0), ("Ed Wood", 0), ("Ed Wood", 2)),
            answer="yes",
            hops=2,
            kind="comparison",
        )

    def test_hotpotqa_where_only_the_titles_are_known(self, tmp_path: Path) -> None:
        record = {**HOTPOTQA, "supporting_facts": None, "gold_titles": ["Ed Wood", "Scott Derrickson"], "type": None}
        example = one(tmp_path, "hotpotqa", record)
        assert (example.gold, example.facts, example.hops) == (("Ed Wood", "Scott Derrickson"), (), 2)
        assert example.kind is None

    def test_hotpotqa_fullwiki_test_has_questions_only(self, tmp_path: Path) -> None:
        example = one(tmp_path, "hotpotqa", {"_id": "q", "question": "Who?", "context": []})
        assert example == Example("q", "Who?")

    def test_hover(self, tmp_path: Path) -> None:
        assert one(tmp_path, "hover", HOVER) == Example(
            qid="330ca632",
            text="Skagen Painter Peder Severin Krøyer favored naturalism along with Theodor Philipsen.",
            gold=("Kristian Zahrtmann", "Ossian Elgström"),
            facts=(("Kristian Zahrtmann", 0), ("Kristian Zahrtmann", 1), ("Ossian Elgström", 2)),
            label="supported",
            hops=3,
        )

    def test_hover_without_valid_sentence_ids_has_no_facts(self, tmp_path: Path) -> None:
        example = one(tmp_path, "hover", {**HOVER, "sentence_ids_hold": False})
        assert (example.gold, example.facts) == (("Kristian Zahrtmann", "Ossian Elgström"), ())
        assert one(tmp_path, "hover", {**HOVER, "sentence_ids_hold": True}).facts

    def test_hover_test_has_claims_only(self, tmp_path: Path) -> None:
        assert one(tmp_path, "hover", {"uid": "u", "claim": "So it is."}) == Example("u", "So it is.")

    @pytest.mark.parametrize(
        ("label", "expected"),
        [("SUPPORTED", "supported"), ("NOT_SUPPORTED", "not supported"), (1, "supported"), (0, "not supported")],
    )
    def test_hover_labels_come_as_words_or_numbers(self, tmp_path: Path, label: Any, expected: str) -> None:
        assert one(tmp_path, "hover", {**HOVER, "label": label}).label == expected

    def test_2wiki(self, tmp_path: Path) -> None:
        example = one(tmp_path, "2wiki", TWOWIKI)
        assert example.gold == ("Payment on Demand", "Carl Boese")
        assert (example.kind, example.answer, example.hops) == ("bridge_comparison", "My Cousin From Warsaw", 2)

    def test_published_musique_orders_paragraphs_by_title(self, tmp_path: Path) -> None:
        assert one(tmp_path, "musique", MUSIQUE) == Example(
            qid="2hop__574419_270105",
            text="What is the seat of the county where Van Hook Township is located?",
            gold=("Mountrail County", "Van Hook Township"),
            answer="Stanley",
            hops=2,
            kind="2hop",
            order=("Van Hook Township", "Mountrail County"),
        )

    def test_musique_ids_are_in_the_order_of_paragraphs(self, tmp_path: Path) -> None:
        example = one(tmp_path, "musique", MUSIQUE_BY_ID)
        assert (example.gold, example.order, example.named_by) == (("40", "7"), ("7", "40"), "id")

    def test_musique_with_an_unanswered_step_has_no_order(self, tmp_path: Path) -> None:
        steps = [*STEPS, {**STEPS[0], "paragraph_support_idx": None}]
        for record in (MUSIQUE, MUSIQUE_BY_ID):
            example = one(tmp_path, "musique", {**record, "question_decomposition": steps})
            assert (len(example.gold), example.order) == (2, ())

    def test_exfever(self, tmp_path: Path) -> None:
        assert one(tmp_path, "exfever", EXFEVER) == Example(
            qid="exfever-10",
            text="Randy Orton is signed with an American wrestling promotion.",
            gold=("Randy Orton", "WWE"),
            label="supported",
            hops=2,
        )

    @pytest.mark.parametrize(
        ("label", "expected"),
        [("SUPPORT", "supported"), ("REFUTE", "refuted"), ("NOT ENOUGH INFO", "not enough information")],
    )
    def test_exfever_labels(self, tmp_path: Path, label: str, expected: str) -> None:
        assert one(tmp_path, "exfever", {**EXFEVER, "label": label}).label == expected

    def test_a_file_of_ones_own(self, tmp_path: Path) -> None:
        assert one(tmp_path, "own", OWN) == Example(
            qid="7",
            text="The mayor of Vardal wrote an opera.",
            gold=("p2", "Ivo Brandt"),
            facts=(("p2", 1), ("Ivo Brandt", 1)),
            label="supported",
            answer="The Deep Choir",
            hops=2,
            kind="bridge",
            order=("p2", "Ivo Brandt"),
            named_by="either",
        )

    def test_a_file_of_ones_own_needs_little(self, tmp_path: Path) -> None:
        example = one(tmp_path, "own", {"id": "a", "text": "So it is.", "gold": []})
        assert example == Example("a", "So it is.", named_by="either")

    def test_an_id_that_is_empty_becomes_one_of_the_text(self, tmp_path: Path) -> None:
        first, second = read_examples("hover", put(tmp_path, {**HOVER, "uid": ""}, {"uid": "", "claim": "Another."}))
        assert first.qid != second.qid
        assert first.qid == one(tmp_path, "hover", {**HOVER, "uid": ""}).qid

    @pytest.mark.parametrize("dataset", DATASETS)
    def test_an_example_goes_to_json_and_back_without_loss(self, tmp_path: Path, dataset: str) -> None:
        example = one(tmp_path, dataset, SAMPLES[dataset])
        assert Example.from_json(json.loads(json.dumps(example.to_json()))) == example
        assert example.label in (*LABELS, None)


class TestFiles:
    @pytest.mark.parametrize("name", ["s.json", "s.jsonl", "s.json.gz", "S.JSONL.GZ"])
    @pytest.mark.parametrize("dataset", DATASETS)
    def test_lists_and_lines_plain_or_compressed(self, tmp_path: Path, dataset: str, name: str) -> None:
        path = put(tmp_path, SAMPLES[dataset], name=name.lower()).rename(tmp_path / name)
        assert read_examples(dataset, str(path)) == [one(tmp_path, dataset, SAMPLES[dataset])]

    @pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
    def test_what_our_commands_write_can_be_read(self, tmp_path: Path, suffix: str) -> None:
        record = {"id": "q1", "text": "Who?", "gold": ["Balio"]}
        write_lines([json.dumps(record).encode()], tmp_path / f"own{suffix}")
        (example,) = read_examples("own", tmp_path / f"own{suffix}")
        assert (example.qid, example.text, example.gold) == ("q1", "Who?", ("Balio",))

    def test_what_counts_is_the_content_and_not_the_name(self, tmp_path: Path) -> None:
        lines = put(tmp_path, EXFEVER, name="s.jsonl").rename(tmp_path / "s.json")
        assert len(read_examples("exfever", lines)) == 1

    def test_blank_lines_and_a_byte_order_mark_do_no_harm(self, tmp_path: Path) -> None:
        path = tmp_path / "s.jsonl"
        path.write_bytes(b"\xef\xbb\xbf\r\n" + json.dumps(EXFEVER).encode() + b"\r\n\r\n")
        assert len(read_examples("exfever", path)) == 1


class TestRefusals:
    def test_an_unknown_dataset_names_the_nearest(self, tmp_path: Path) -> None:
        with pytest.raises(DatasetError, match="there is no dataset 'HotpotQA'; did you mean 'hotpotqa'?"):
            read_examples("HotpotQA", tmp_path / "s.json")
        with pytest.raises(DatasetError, match="known are hotpotqa, hover, 2wiki, musique, exfever, own"):
            read_examples("zzz", tmp_path / "s.json")

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        assert refusal("hover", tmp_path / "s.json") == ": no such file"

    def test_a_file_of_another_kind(self, tmp_path: Path) -> None:
        assert refusal("hover", tmp_path / "s.csv").startswith(": unknown format; expected a name that ends in")

    def test_a_folder(self, tmp_path: Path) -> None:
        (tmp_path / "s.json").mkdir()
        assert "cannot be read" in refusal("hover", tmp_path / "s.json")

    def test_a_compressed_file_that_was_cut_short(self, tmp_path: Path) -> None:
        path = put(tmp_path, HOVER, name="s.json.gz")
        path.write_bytes(path.read_bytes()[:-20])
        assert "expected a complete, undamaged file" in refusal("hover", path)

    @pytest.mark.parametrize("content", ["", " \n\n", "[]"])
    def test_an_empty_file(self, tmp_path: Path, content: str) -> None:
        path = tmp_path / "s.json"
        path.write_text(content)
        assert refusal("hover", path).startswith(": an empty file; expected")

    def test_a_list_that_is_not_json(self, tmp_path: Path) -> None:
        path = tmp_path / "s.json"
        path.write_text('[{"uid": "a",]')
        assert refusal("hover", path).startswith(": not JSON (")

    def test_a_line_that_is_not_json(self, tmp_path: Path) -> None:
        path = put(tmp_path, EXFEVER, name="s.jsonl")
        path.write_text(path.read_text() + "\n\n{'id': 3}\n")
        assert refusal("exfever", path).startswith(":3: not JSON (")

    def test_bytes_that_are_not_utf8(self, tmp_path: Path) -> None:
        path = tmp_path / "s.jsonl"
        path.write_bytes(b'{"id": "\xff"}')
        assert refusal("exfever", path) == ":1: invalid UTF-8 at byte 9; expected UTF-8"

    def test_a_record_that_is_no_object(self, tmp_path: Path) -> None:
        path = put(tmp_path, HOVER, [1, 2])
        assert refusal("hover", path) == ": record 2: a list; expected a JSON object"

    def test_the_file_of_another_dataset(self, tmp_path: Path) -> None:
        path = put(tmp_path, EXFEVER)
        assert refusal("hotpotqa", path) == (
            ": record 1: no 'question' among the keys 'id', 'claim', 'label', 'explanation', 'gold_titles'; expected a "
            "string"
        )

    def test_a_repeated_id(self, tmp_path: Path) -> None:
        path = put(tmp_path, HOVER, {**HOVER, "claim": "Another."})
        assert refusal("hover", path) == ": record 2: the id '330ca632' is repeated; expected every id once"

    @pytest.mark.parametrize(
        ("dataset", "change", "flaw"),
        [
            ("hover", {"claim": 3}, "'claim' is a number; expected a string"),
            ("hover", {"claim": " "}, "'claim' is empty; expected at least one word"),
            ("hover", {"claim": "\ud83d"}, "'claim' contains an unpaired surrogate; expected valid Unicode"),
            ("hover", {"uid": True}, "'uid' is a boolean; expected a string or an integer"),
            ("hover", {"num_hops": "3"}, "'num_hops' is a string; expected an integer"),
            ("hover", {"label": "MAYBE"}, "'label' is 'MAYBE'; expected one of not enough information, not supported"),
            ("hover", {"label": 2}, "'label' is 2; expected one of"),
            ("hover", {"supporting_facts": {}}, "'supporting_facts' is an object; expected a list"),
            ("hover", {"supporting_facts": [["A", "0"]]}, "whose sentence id is a string; expected an integer"),
            ("hover", {"supporting_facts": [["A"]]}, "holds ['A']; expected pairs of a title or id and a sentence id"),
            ("hover", {"supporting_facts": [[None, 0]]}, "'supporting_facts' holds null; expected titles or ids"),
            ("exfever", {"gold_titles": ["A", ""]}, "'gold_titles' holds an empty name; expected titles or ids"),
            ("exfever", {"gold_titles": "A"}, "'gold_titles' is a string; expected a list"),
            ("musique", {"paragraphs": ["A"]}, "'paragraphs' holds a string; expected objects"),
            ("musique", {"paragraphs": []}, "steps but no gold passage; expected 'gold_ids', or 'paragraphs'"),
            ("own", {"hops": 2.5}, "'hops' is a number; expected an integer"),
        ],
    )
    def test_a_value_of_the_wrong_kind(self, tmp_path: Path, dataset: str, change: dict[str, Any], flaw: str) -> None:
        message = refusal(dataset, put(tmp_path, {**SAMPLES[dataset], **change}, name="s.jsonl"))
        assert message.startswith(":1: ")
        assert flaw in message

    def test_a_file_of_ones_own_without_gold(self, tmp_path: Path) -> None:
        path = put(tmp_path, {"id": 1, "text": "So it is."})
        assert refusal("own", path).startswith(": record 1: no 'gold'; expected a list")


def passage(pid: str, title: str, sentences: int = 2) -> Passage:
    return Passage.from_sentences(pid, title, [f"Sentence {number}." for number in range(sentences)])


def catalogue(**titles: str) -> Catalogue:
    return Catalogue.of(passage(pid, title) for pid, title in titles.items())


CODES = st.lists(st.sampled_from(["p1", "p2", "p3", "p4"]), unique=True)


class TestTitles:
    @pytest.mark.parametrize(
        ("written", "stored"),
        [
            ("Ed Wood", "Ed Wood"),
            ("Simon &amp; Garfunkel", "Simon & Garfunkel"),
            ("Simon & Garfunkel", "Simon &amp; Garfunkel"),
            (unicodedata.normalize("NFD", "Löwchen"), unicodedata.normalize("NFC", "Löwchen")),
            (unicodedata.normalize("NFC", "Löwchen"), unicodedata.normalize("NFD", "Löwchen")),
            (" Ed \u00a0 Wood\n", "Ed Wood"),
            ("ed wood", "Ed Wood"),
            ("LÖWCHEN", unicodedata.normalize("NFD", "Löwchen")),
        ],
    )
    def test_two_spellings_of_one_title(self, written: str, stored: str) -> None:
        assert catalogue(p1=stored, p2="Another").find(written) == ("p1",)

    def test_the_same_case_goes_before_another(self) -> None:
        both = catalogue(p1="wii", p2="WII")
        assert (both.find("WII"), both.find("wii"), both.find("Wii")) == (("p2",), ("p1",), ("p1", "p2"))

    def test_a_title_that_is_somebodys_id_is_still_a_title(self) -> None:
        numbers = Catalogue.of([passage("1984", "Animal Farm"), passage("2", "1984")])
        assert numbers.find("1984", "title") == ("2",)
        assert numbers.find("1984", "id") == numbers.find("1984", "either") == ("1984",)
        assert numbers.find("Animal Farm", "id") == ()
        assert numbers.find("Animal Farm", "either") == ("1984",)

    @given(st.text(min_size=1))
    def test_every_title_finds_its_passage(self, title: str) -> None:
        assert catalogue(p1=title).find(title) == ("p1",)


class TestCatalogue:
    def test_passages_are_streamed(self) -> None:
        class Countless:
            alive = 0

            def __del__(self) -> None:
                Countless.alive -= 1

        def stream() -> Iterator[Passage]:
            for number in range(5):
                Countless.alive += 1
                assert Countless.alive < 3, "passages are held"
                yield Passage(f"p{number}", f"Title {number}", "Text.", ((0, 5),), {"mark": Countless()})

        assert len(Catalogue.of(stream())) == 5


class TestResolving:
    def test_gold_facts_and_order_are_named_by_pid(self) -> None:
        example = Example(
            "q", "So?", ("Vardal", "ivo brandt"), (("Vardal", 1), ("ivo brandt", 0)), order=("ivo brandt", "Vardal")
        )
        (resolved,), report = resolve_gold([example], Catalogue.of(CORPUS))
        assert (resolved.gold, resolved.facts) == (("p2", "p3"), (("p2", 1), ("p3", 0)))
        assert (resolved.order, resolved.named_by) == (("p3", "p2"), "id")
        assert report == GoldReport(examples=1, kept=1, golds=2, facts=2)

    def test_a_file_of_ones_own_may_mix_ids_and_titles(self, tmp_path: Path) -> None:
        (resolved,), _ = resolve_gold([one(tmp_path, "own", OWN)], Catalogue.of(CORPUS))
        assert (resolved.gold, resolved.facts, resolved.order) == (("p2", "p3"), (("p2", 1), ("p3", 1)), ("p2", "p3"))

    def test_what_is_missing_fails_in_one_line(self) -> None:
        examples = [Example("q1", "So?", ("Vardal", "Atlantis")), Example("q2", "So?", ("Tromsk",))]
        with pytest.raises(DatasetError) as caught:
            resolve_gold(examples, Catalogue.of(CORPUS))
        assert str(caught.value) == (
            "1 of 3 gold passages are not among the 8 of the corpus and 0 have a title that several share, in 1 of 2 "
            "examples: 'Atlantis' (of q1); expected each gold passage once: use the corpus that the dataset was made "
            "for, or drop such examples (missing='drop')"
        )

    def test_what_is_missing_can_be_left_out_and_is_reported(self) -> None:
        examples = [Example("q1", "So?", ("Vardal", "Atlantis")), Example("q2", "So?", ("Tromsk",))]
        resolved, report = resolve_gold(examples, Catalogue.of(CORPUS), missing="drop")
        assert [example.qid for example in resolved] == ["q2"]
        assert report == GoldReport(
            examples=2, kept=1, golds=3, missing=1, dropped=("q1",), first_missing=("'Atlantis' (of q1)",)
        )

    def test_only_the_first_names_are_shown(self) -> None:
        examples = [Example(f"q{number}", "So?", ("Atlantis",)) for number in range(100)]
        report = resolve_gold(examples, Catalogue.of(CORPUS), missing="drop").report
        assert (report.missing, len(report.dropped), len(report.first_missing)) == (100, 100, 5)

    def test_a_title_that_several_passages_have_is_ambiguous(self) -> None:
        twins = catalogue(p1="Southeast Asia", p2="Southeast Asia")
        report = resolve_gold([Example("q", "So?", ("Southeast Asia",))], twins, missing="drop").report
        assert (report.kept, report.missing, report.ambiguous) == (0, 0, 1)
        assert report.first_ambiguous == ("'Southeast Asia' (2 passages, of q)",)
        with pytest.raises(DatasetError, match="1 have a title that several share"):
            resolve_gold([Example("q", "So?", ("Southeast Asia",))], twins)

    def test_but_an_id_is_never_ambiguous(self) -> None:
        twins = catalogue(p1="Southeast Asia", p2="Southeast Asia")
        (resolved,), _ = resolve_gold([Example("q", "So?", ("p2",), named_by="id")], twins)
        assert resolved.gold == ("p2",)

    def test_facts_beyond_the_last_sentence_are_dropped_and_counted(self) -> None:
        example = Example("q", "So?", ("Vardal",), (("Vardal", 1), ("Vardal", 2), ("Vardal", -1)))
        (resolved,), report = resolve_gold([example], Catalogue.of(CORPUS))
        assert (resolved.facts, report.facts, report.facts_dropped) == ((("p2", 1),), 1, 2)

    def test_facts_of_passages_that_are_not_gold_are_dropped_and_counted(self) -> None:
        example = Example("q", "So?", ("Vardal",), (("Vardal", 0), ("Tromsk", 0), ("Atlantis", 0)))
        (resolved,), report = resolve_gold([example], Catalogue.of(CORPUS))
        assert (resolved.facts, report.facts_dropped) == ((("p2", 0),), 2)

    def test_an_order_that_is_not_of_the_gold_passages_is_dropped_and_counted(self) -> None:
        examples = [
            Example(order[0], "So?", ("Vardal", "Tromsk"), order=order) for order in (("Vardal",), ("Atlantis",))
        ]
        resolved, report = resolve_gold(examples, Catalogue.of(CORPUS))
        assert ([example.order for example in resolved], report.orders_dropped) == ([(), ()], 2)

    def test_two_names_of_one_passage_are_one_gold_passage(self) -> None:
        example = Example("q", "So?", ("Vardal", "p2"), (("Vardal", 0), ("p2", 0)), named_by="either")
        (resolved,), _ = resolve_gold([example], Catalogue.of(CORPUS))
        assert (resolved.gold, resolved.facts) == (("p2",), (("p2", 0),))

    def test_a_test_set_without_gold_is_kept_as_it_is(self) -> None:
        (resolved,), report = resolve_gold([Example("q", "So?")], Catalogue.of(CORPUS))
        assert (resolved.gold, report.kept, report.without_gold) == ((), 1, 1)

    @given(CODES, st.lists(st.tuples(st.sampled_from(["p1", "p2", "p5"]), st.integers(-1, 3))), CODES)
    def test_resolving_twice_changes_nothing(
        self, gold: list[str], facts: list[tuple[str, int]], order: list[str]
    ) -> None:
        names = {"p1": "A", "p2": "B", "p3": "C", "p4": "a", "p5": "D"}
        example = Example("q", "So?", tuple(gold), tuple(facts), order=tuple(order), named_by="either")
        first, report = resolve_gold([example], catalogue(**names))
        again, later = resolve_gold(first, catalogue(**names))
        assert first == again
        assert (later.facts_dropped, later.orders_dropped, later.facts) == (0, 0, report.facts)
        assert {pid for pid, _ in first[0].facts} <= set(first[0].gold)
