"""Questions restated as claims: what each rule makes of a question, what is left alone, and what `baleen restate` writes."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from baleen.datasets import read_examples
from baleen.datasets.example import BY_ID, REFUTED, SUPPORTED, Example
from baleen.errors import CorpusError, DatasetError
from baleen.restating.answers import Answer, filled, shape_of
from baleen.restating.frame import COMPARISON, COPULA, IN_PLACE, INVERSION, SUBJECT, YES_NO, Frame
from baleen.restating.restater import (
    NO_ANSWER,
    NO_RULE,
    NOT_PLAIN,
    NOT_SHORT,
    Restated,
    Restater,
    Source,
    reads_well,
    understood,
)
from baleen.restating.sorts import are_alike, is_person
from baleen.restating.surroundings import Surroundings, read_surroundings
from baleen.restating.wrong_answers import Pool, wrong_answers
from cli_fakes import Baleen, command_line


def example(text: str, answer: str | None, gold: tuple[str, ...] = (), qid: str = "q1") -> Example:
    return Example(qid, text, gold, answer=answer, hops=len(gold) or None)


def restated(text: str, answer: str, gold: tuple[str, ...] = ()) -> dict[str, set[str]]:
    """The true claims of a question by rule, over several seeds: a rule may have more than one form."""
    found: dict[str, set[str]] = {}
    for seed in range(12):
        for claim in Restater([Source([example(text, answer, gold)])], seed, false=0).claims():
            found.setdefault(claim.rule, set()).add(claim.text)
    return found


def claims(examples: list[Example], seed: int = 0, false: int = 1, **more: Any) -> list[Restated]:
    return list(Restater([Source(examples, **more)], seed, false).claims())


class TestInPlace:
    @pytest.mark.parametrize(
        ("text", "answer", "expected"),
        [
            (
                "The sixth single off of the album features what contemporary soul singer?",
                "Danny Boy",
                {
                    "The sixth single off of the album features Danny Boy.",
                    "The sixth single off of the album features the contemporary soul singer Danny Boy.",
                },
            ),
            (
                "Tom Felton won awards for his performance in a film directed by who?",
                "David Yates",
                {"Tom Felton won awards for his performance in a film directed by David Yates."},
            ),
            (
                "Kadeem Jack is a player in a league that started with how many teams?",
                "eight",
                {"Kadeem Jack is a player in a league that started with eight teams."},
            ),
            (
                "The Row was founded by a woman born in which year ?",
                "13 June 1986",
                {"The Row was founded by a woman born on 13 June 1986."},
            ),
            (
                "E! Hollywood Hold'em was hosted by a poker player of what nationality?",
                "Irish",
                {"E! Hollywood Hold'em was hosted by a poker player of Irish nationality."},
            ),
            (
                "The LNW-80 and Amstrad PCW are both what kind of machine?",
                "computer",
                {"The LNW-80 and Amstrad PCW are both computers."},
            ),
            (
                "The office is held by which Irish politician who has served as Taoiseach?",
                "Leo Varadkar",
                {"The office is held by Leo Varadkar, an Irish politician who has served as Taoiseach."},
            ),
        ],
    )
    def test_the_answer_stands_where_it_was_asked_for(self, text: str, answer: str, expected: set[str]) -> None:
        assert restated(text, answer) == {IN_PLACE: expected}


class TestSubject:
    @pytest.mark.parametrize(
        ("text", "answer", "expected"),
        [
            (
                "Who produced the single that the singer was most known for?",
                "Steely and Clevie",
                {"Steely and Clevie produced the single that the singer was most known for."},
            ),
            (
                "What British cinematographer worked on the film Star Wars?",
                "Gilbert Taylor",
                {
                    "Gilbert Taylor worked on the film Star Wars.",
                    "The British cinematographer Gilbert Taylor worked on the film Star Wars.",
                },
            ),
            (
                "How many students were enrolled in the school?",
                "1,840 students",
                {"1,840 students were enrolled in the school."},
            ),
            (
                "In the film Monster, who played Selby Wall?",
                "Christina Ricci",
                {"In the film Monster, Christina Ricci played Selby Wall."},
            ),
        ],
    )
    def test_the_verb_follows_the_answer(self, text: str, answer: str, expected: set[str]) -> None:
        assert restated(text, answer) == {SUBJECT: expected}


class TestCopula:
    @pytest.mark.parametrize(
        ("text", "answer", "expected"),
        [
            (
                "Who is the maternal grandfather of Mary?",
                "John Doe",
                {"The maternal grandfather of Mary is John Doe.", "John Doe is the maternal grandfather of Mary."},
            ),
            (
                "What nationality is the director of film The Eternal Grind?",
                "American",
                {"The director of the film The Eternal Grind is American."},
            ),
            (
                "What is the population of the state where the airport is located?",
                "2,913,123",
                {"The population of the state where the airport is located is 2,913,123."},
            ),
            ("When is Karl's father's birthday?", "18 January 1866", {"Karl's father's birthday is 18 January 1866."}),
            (
                "Where was the place of death of Isabel Moctezuma's father?",
                "Tenochtitlan",
                {"The place of death of Isabel Moctezuma's father was Tenochtitlan."},
            ),
        ],
    )
    def test_a_description_is_turned_round(self, text: str, answer: str, expected: set[str]) -> None:
        assert restated(text, answer) == {COPULA: expected}


class TestInversion:
    @pytest.mark.parametrize(
        ("text", "answer", "expected"),
        [
            (
                "When did the director of film The Corpse Vanishes die?",
                "June 30, 1958",
                "The director of the film The Corpse Vanishes died on June 30, 1958.",
            ),
            (
                "In what year was the King who made the 1925 Honours born?",
                "1865",
                "The King who made the 1925 Honours was born in 1865.",
            ),
            (
                "When was the English actor born who is a star in Intimate Relations?",
                "7 December 1989",
                "The English actor who is a star in Intimate Relations was born on 7 December 1989.",
            ),
            (
                "Who did the Doncaster Belles play in 1983?",
                "St Helens",
                "The Doncaster Belles played St Helens in 1983.",
            ),
            ("Which road is Kirk Langley found on?", "the A52", "Kirk Langley is found on the A52."),
            (
                "How many different schools does the university have?",
                "six",
                "The university has six different schools.",
            ),
            (
                "What sport do Jeff Rowley and Peahi have in common?",
                "surfing",
                "The sport that Jeff Rowley and Peahi have in common is surfing.",
            ),
            ("Where did Khanzada Begum's father die?", "Fergana", "Khanzada Begum's father died in Fergana."),
            (
                "Which country the director of film Angela is from?",
                "American",
                "The director of the film Angela is American.",
            ),
        ],
    )
    def test_the_auxiliary_goes_behind_its_subject(self, text: str, answer: str, expected: str) -> None:
        found = restated(text, answer)
        assert set(found) == {INVERSION}
        assert expected in found[INVERSION]

    def test_a_time_or_a_place_may_come_first(self) -> None:
        found = restated("When did Peter Capaldi play the role of Mr. Curry in the film Paddington that year?", "2017")
        assert {text.split()[0] for text in found[INVERSION]} <= {"Peter", "In"}


class TestYesOrNo:
    @pytest.mark.parametrize(
        ("text", "gold", "expected"),
        [
            (
                "Are both Dys (Band) and Tristesse De La Lune from the same country?",
                ("Dys (band)", "Tristesse de la Lune"),
                "Both Dys (Band) and Tristesse De La Lune are from the same country.",
            ),
            (
                "Are Darren Shepherd and Rémi Lange both American?",
                (),
                "Darren Shepherd and Rémi Lange are both American.",
            ),
            (
                "Are both Henry King and Bob Rafelson American film directors?",
                (),
                "Both Henry King and Bob Rafelson are American film directors.",
            ),
            (
                "Did Vadim Vorfolomeyev and Pathman Matialakan share the same nationality?",
                (),
                "Vadim Vorfolomeyev and Pathman Matialakan shared the same nationality.",
            ),
            (
                "Does Rafael Novoa have the same nationality as Gayleen Aiken?",
                ("Rafael Novoa", "Gayleen Aiken"),
                "Rafael Novoa has the same nationality as Gayleen Aiken.",
            ),
            (
                "Steven Spielberg and Bill Bixby are both directors, is this true?",
                (),
                "Steven Spielberg and Bill Bixby are both directors.",
            ),
            (
                "Are director of film Mazhakaaru and director of film Change from the same country?",
                ("Mazhakaaru", "Change"),
                "The director of the film Mazhakaaru and the director of the film Change are from the same country.",
            ),
        ],
    )
    def test_what_was_asked_is_stated(self, text: str, gold: tuple[str, ...], expected: str) -> None:
        for answer, label in (("yes", SUPPORTED), ("no", REFUTED)):
            found = claims([example(text, answer, gold)], false=3)
            assert [(claim.text, claim.label, claim.rule, claim.made) for claim in found] == [
                (expected, label, YES_NO, None)
            ]


class TestComparison:
    @pytest.mark.parametrize(
        ("text", "answer", "true", "false"),
        [
            (
                "Which film came out first, Blind Shaft or The Mask Of Fu Manchu?",
                "The Mask Of Fu Manchu",
                "The Mask Of Fu Manchu came out before Blind Shaft.",
                "Blind Shaft came out before The Mask Of Fu Manchu.",
            ),
            (
                "Who is older, Annie Morton or Terry Richardson?",
                "Terry Richardson",
                "Terry Richardson is older than Annie Morton.",
                "Annie Morton is older than Terry Richardson.",
            ),
            (
                "Which magazine was started first Arthur's Magazine or First for Women?",
                "Arthur's Magazine",
                "Arthur's Magazine was started before First for Women.",
                "First for Women was started before Arthur's Magazine.",
            ),
            (
                "Was Jovita Carranza or Fidel Grajales born first?",
                "Jovita Carranza",
                "Jovita Carranza was born before Fidel Grajales.",
                "Fidel Grajales was born before Jovita Carranza.",
            ),
            (
                "Which film has the director who died later, Cantaclaro or The Rack?",
                "Cantaclaro",
                "The director of Cantaclaro died after the director of The Rack.",
                "The director of The Rack died after the director of Cantaclaro.",
            ),
            (
                "Between two scientists Ernst Messerschmid and Philippe Perrin, who is older?",
                "Ernst Willi Messerschmid",
                "Ernst Messerschmid is older than Philippe Perrin.",
                "Philippe Perrin is older than Ernst Messerschmid.",
            ),
            (
                "Which mall, Wilton Mall or Viaport Rotterdam, has had more owners?",
                "Viaport Rotterdam",
                "Viaport Rotterdam has had more owners than Wilton Mall.",
                "Wilton Mall has had more owners than Viaport Rotterdam.",
            ),
        ],
    )
    def test_the_false_claim_names_the_other(self, text: str, answer: str, true: str, false: str) -> None:
        gold = ("First for Women", "Arthur's Magazine", "The Rack", "Blind Shaft", "The Mask of Fu Manchu")
        found = claims([example(text, answer, gold)])
        assert [(claim.text, claim.label, claim.made) for claim in found] == [
            (true, SUPPORTED, None),
            (false, REFUTED, "order"),
        ]

    def test_what_is_no_matter_of_more_or_less_sets_one_against_the_other(self) -> None:
        found = restated("Which band is from Berkeley, White Zombie or Counting Crows?", "Counting Crows")
        assert found == {
            COMPARISON: {
                "Unlike White Zombie, Counting Crows is from Berkeley.",
                "Counting Crows, unlike White Zombie, is from Berkeley.",
            }
        }


class TestLeftAlone:
    @pytest.mark.parametrize(
        ("text", "answer", "why"),
        [
            ("Who wrote it?", None, NO_ANSWER),
            ("Who wrote it?", " ", NO_ANSWER),
            ("Pauline Henry sang a very popular song. Which album was this song from?", "The Joshua Tree", NOT_PLAIN),
            ('Who sang "Nobody in the end?', "Bob Dylan", NOT_PLAIN),
            ("Who directed \ue005, the film that won?", "Michael Mann", NOT_PLAIN),
            ("What caused the fire in Accra?", "an explosion occurred at a petrol station", NOT_SHORT),
            ("What is Cyaxares relationship to the man?", "r grandfather <a hr", NOT_SHORT),
            ("Name a member of a supergroup who recorded a song in 1990", "Bob Dylan", NO_RULE),
            ("How did the war that began in 1914 end?", "in defeat", NO_RULE),
            ("What mountains can you see from Portland?", "Tualatin Mountains", NO_RULE),
            ("What is the connection between Peter O'Meara and Norman Dike?", "Band of Brothers", NO_RULE),
            ("Who was the king of the king George?", "King George", NO_RULE),
        ],
    )
    def test_what_no_rule_understands_is_counted(self, text: str, answer: str | None, why: str) -> None:
        restater = Restater([Source([example(text, answer)])])
        assert list(restater.claims()) == []
        assert restater.left == {why: 1}

    @pytest.mark.parametrize(
        "text",
        [
            "Too short.",
            "He was the the king.",
            "It took place in in Rome.",
            'He wrote "It once.',
            "What is a town (in Ohio.",
        ],
    )
    def test_what_does_not_read_well_is_not_written(self, text: str) -> None:
        assert not reads_well(text)

    def test_nothing_is_written_twice(self) -> None:
        text = "Who directed the film Heat?"
        restater = Restater([Source([example(text, "Michael Mann"), example(text, "Michael Mann", qid="q2")])])
        assert len(list(restater.claims())) == 1
        assert restater.dropped == {"made before": 1}

    def test_ids_that_are_gold_are_no_names(self) -> None:
        asked = Example("q", "Who wrote 123 of the songs of 1984?", ("123",), answer="Bob Dylan", named_by=BY_ID)
        found = understood(asked, random.Random(0))
        assert not isinstance(found, str)
        assert found[0].text.endswith("wrote 123 of the songs of 1984")


class TestAnswers:
    @pytest.mark.parametrize(
        ("text", "shape"),
        [
            ("1984", "year"),
            ("March 28, 1941", "date"),
            ("28 March 1941", "date"),
            ("March 28", "day"),
            ("November 2017", "month"),
            ("the 1990s", "decade"),
            ("six", "number"),
            ("37,776", "number"),
            ("American", "adjective"),
            ("Danny Boy", "name"),
            ('"Kiss Me, Kate"', "name"),
            ("board game", "words"),
        ],
    )
    def test_have_a_shape(self, text: str, shape: str) -> None:
        assert shape_of(text) == shape

    def test_lose_what_stands_in_brackets_behind_them(self) -> None:
        assert Answer.read("575 acres (2.08 km²).") == Answer("575 acres", "number")
        assert Answer.read("(foaled February 1, 1999)") is None

    def test_bring_their_article_and_their_plural(self) -> None:
        assert filled("it is a \ue8f0", "opera") == "it is an opera"
        assert filled("both are \ue8f0\ue8f2", "city") == "both are cities"


class TestWrongAnswers:
    def wrong(
        self,
        answer: str,
        head: str,
        around: Surroundings | None = None,
        pool: Pool | None = None,
        question: str = "Q?",
        count: int = 5,
    ) -> list[str]:
        read = Answer.read(answer)
        assert read is not None
        frame = Frame(IN_PLACE, "", "which", head)
        found = wrong_answers(frame, read, question, around or Surroundings(), pool or Pool(), random.Random(3), count)
        return [each for each, _ in found]

    def pool(self, head: str, *answers: str) -> Pool:
        pool = Pool()
        for answer in answers:
            read = Answer.read(answer)
            assert read is not None
            pool.add(Frame(IN_PLACE, "", "which", head), read, Surroundings())
        return pool

    @pytest.mark.parametrize(
        "answer", ["1984", "March 28, 1941", "28 March", "November 2017", "six", "37,776", "6.213 km"]
    )
    def test_times_and_numbers_are_near_and_of_the_same_shape(self, answer: str) -> None:
        found = self.wrong(answer, "year")
        assert found
        assert answer not in found
        assert {shape_of(each) for each in found} == {shape_of(answer)}

    def test_a_bound_has_no_near_number(self) -> None:
        assert self.wrong("more than 20", "year") == []

    def test_none_that_the_question_or_the_gold_passages_name(self) -> None:
        around = Surroundings("It stands in Kent County near Elk County.")
        pool = self.pool("county", "Kent County", "Elk County", "Wake County", "Dade County", "Pike County")
        found = self.wrong("Cole County", "county", around, pool, "Which county borders Dade County?")
        assert sorted(found) == ["Pike County", "Wake County"]

    def test_a_passage_beside_the_gold_that_is_what_was_asked_for_comes_first(self) -> None:
        others = (
            ("Blue River (Ohio)", "Blue River is a river in Ohio."),
            ("John Blue", "John Blue (born 1950) is a river guide."),
            ("River Press", "River Press is a publisher of river maps."),
        )
        found = self.wrong("Red River", "river", Surroundings("", others), self.pool("river", "Elk Creek"))
        assert found == ["Blue River", "Elk Creek"]

    def test_persons_stand_for_persons_of_the_same_sex(self) -> None:
        others = (
            ("Ann Lee", "Ann Lee (born 1950) is a singer. She lives in Rome."),
            ("Bob Ray", "Bob Ray (born 1951) is a singer. He lives in Rome."),
        )
        assert self.wrong("Eva Dow", "mother", Surroundings("", others)) == ["Ann Lee"]
        assert self.wrong("Max Dow", "father", Surroundings("", others)) == ["Bob Ray"]

    def test_no_country_for_a_city_and_no_novelist_for_a_writer(self) -> None:
        assert self.wrong("Paris", "where", pool=self.pool("where", "France", "Texas", "Lyon")) == ["Lyon"]
        assert self.wrong("England", "country", pool=self.pool("country", "United Kingdom", "Chile")) == ["Chile"]
        assert self.wrong("writer", "profession", pool=self.pool("profession", "novelist", "chemist")) == ["chemist"]
        assert are_alike("American singer", "musician")

    def test_none_where_it_cannot_be_told_what_was_asked_for(self) -> None:
        assert self.wrong("Snoop Lion", "what", pool=self.pool("what", "Daimler", "Konami")) == []

    def test_a_firm_is_no_person(self) -> None:
        assert is_person("Ricard Rubio")
        assert not is_person("Island Records")

    def test_as_many_as_are_asked_for(self) -> None:
        asked = [example(f"In what year was the {name} club founded?", "1900", qid=name) for name in ("Ada", "Bea")]
        found = claims(asked, false=3)
        assert [claim.label for claim in found] == [SUPPORTED, *[REFUTED] * 3] * 2
        assert {claim.made for claim in found} == {None, "number"}
        assert len(claims(asked, false=0)) == 2


CONTEXT = [
    ["Heat (film)", ["Heat is a 1995 film directed by Michael Mann.", " Michael Mann (born 1943) is American."]],
    ["Rob Reed", ["Rob Reed (born 1950) is a director.", " He made films."]],
    ["Sam Heat", ["Sam Heat (born 1950) is a director.", " He saw Heat (film)."]],
]


def hotpotqa() -> list[dict[str, Any]]:
    facts = [["Heat (film)", 0], ["Michael Mann", 0]]
    questions = [
        ("a1", "Who directed the film Heat?", "Michael Mann"),
        ("a2", "Are Heat and Ronin both American films?", "yes"),
        ("a3", "Which film came out first, Heat or Ronin?", "Heat"),
        ("a4", "In what year was the director of Heat born?", "1943"),
        ("a5", "Why did the director of Heat leave?", "money"),
        ("a6", "Who directed the film Ronin?", None),
    ]
    return [
        {
            "_id": qid,
            "question": text,
            "answer": answer,
            "type": "bridge",
            "supporting_facts": facts,
            "context": CONTEXT,
        }
        for qid, text, answer in questions
    ]


@pytest.fixture
def baleen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Baleen]:
    """Runs `baleen restate` in a folder that has some questions as `train.json`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.json").write_text(json.dumps(hotpotqa()))

    yield from command_line(monkeypatch, capfd, "restate")


def lines(path: str) -> list[dict[str, Any]]:
    content = Path(path).read_bytes()
    return [json.loads(line) for line in (gzip.decompress(content) if path.endswith(".gz") else content).splitlines()]


class TestSurroundings:
    @pytest.mark.parametrize("form", ["list", "lines", "packed"])
    def test_are_read_from_each_form_of_a_file(self, tmp_path: Path, form: str) -> None:
        records = hotpotqa()
        text = json.dumps(records) if form == "list" else "\n".join(map(json.dumps, records)) + "\n"
        path = tmp_path / ("train.jsonl.gz" if form == "packed" else "train.json")
        path.write_bytes(gzip.compress(text.encode()) if form == "packed" else text.encode())
        found = read_surroundings(path, read_examples("hotpotqa", path))
        assert sorted(found) == ["a1", "a2", "a3", "a4", "a5", "a6"]
        assert "Michael Mann (born 1943)" in found["a1"].gold
        assert [title for title, _ in found["a1"].others] == ["Rob Reed"]  # the other speaks of what is gold

    def test_a_file_without_a_context_has_none(self, tmp_path: Path) -> None:
        path = tmp_path / "own.jsonl"
        path.write_text(json.dumps({"id": "1", "text": "Who is it?", "gold": [], "answer": "Ann Lee"}))
        assert read_surroundings(path, read_examples("own", path)) == {}


class TestFile:
    def test_is_read_as_a_dataset_of_one_s_own(self, baleen: Baleen) -> None:
        assert baleen("hotpotqa:train.json", "--out", "claims.jsonl", "--seed", "1").code == 0
        asked = {each.qid: each for each in read_examples("hotpotqa", "train.json")}
        records, found = lines("claims.jsonl"), read_examples("own", "claims.jsonl")
        assert len(records) == len(found) == 7
        for record, claim in zip(records, found, strict=True):
            source = asked[record["from"]]
            assert (claim.gold, claim.facts, claim.hops) == (source.gold, source.facts, source.hops)
            assert (claim.label, claim.kind) == (record["label"], "restated")
            assert record["question"] == source.text

    def test_has_true_and_false_claims(self, baleen: Baleen) -> None:
        assert baleen("hotpotqa:train.json", "--out", "claims.jsonl.gz").code == 0
        found = {record["text"]: (record["label"], record["made"]) for record in lines("claims.jsonl.gz")}
        assert found["Michael Mann directed the film Heat."] == (SUPPORTED, None)
        assert found["Rob Reed directed the film Heat."] == (REFUTED, "entity")
        assert found["Heat and Ronin are both American films."] == (SUPPORTED, None)
        assert found["Ronin came out before Heat."] == (REFUTED, "order")

    def test_is_the_same_byte_for_byte_in_every_process(self, baleen: Baleen, tmp_path: Path) -> None:
        arguments = ("hotpotqa:train.json", "--seed", "5", "--false", "2")
        assert baleen(*arguments, "--out", "here.jsonl").code == 0
        for hashing in ("0", "77"):
            command = [sys.executable, "-m", "baleen", "restate", *arguments, "--out", f"{hashing}.jsonl"]
            environment = {**os.environ, "PYTHONHASHSEED": hashing}
            subprocess.run(command, check=True, cwd=tmp_path, env=environment, capture_output=True)
            assert Path(f"{hashing}.jsonl").read_bytes() == Path("here.jsonl").read_bytes()

    def test_is_another_for_another_seed(self, baleen: Baleen) -> None:
        for seed in ("1", "2"):
            assert baleen("hotpotqa:train.json", "--out", f"{seed}.jsonl", "--seed", seed, "--false", "4").code == 0
        assert [each["text"] for each in lines("1.jsonl")] != [each["text"] for each in lines("2.jsonl")]

    def test_may_be_of_more_than_one_file(self, baleen: Baleen) -> None:
        record = {
            "id": "m1",
            "text": "Who wrote the novel Emma?",
            "gold": ["4", "9"],
            "order": ["9", "4"],
            "answer": "Jane Austen",
        }
        Path("own.jsonl").write_text(json.dumps(record))
        assert baleen("hotpotqa:train.json", "own:own.jsonl", "--out", "c.jsonl", "--false", "0").code == 0
        last = read_examples("own", "c.jsonl")[-1]
        assert (last.text, last.gold, last.order) == ("Jane Austen wrote the novel Emma.", ("4", "9"), ("9", "4"))


class TestReport:
    def test_is_one_json_document(self, baleen: Baleen) -> None:
        report = json.loads(baleen("hotpotqa:train.json", "--out", "c.jsonl", "--json").out)
        assert (report["questions"], report["written"]) == (6, 7)
        assert report["counts"]["comparison"] == {"supported": 1, "refuted": 1}
        assert report["left_alone"] == {NO_RULE: 1, NO_ANSWER: 1}

    def test_or_a_page_with_a_table(self, baleen: Baleen) -> None:
        done = baleen("hotpotqa:train.json", "--out", "c.jsonl")
        assert "| rule | supported | refuted | all |" in done.out
        assert "left alone: 1 questions (no answer)" in done.out
        assert "7 claims of 6 questions written to c.jsonl in " in done.out


class TestAvoid:
    def test_nothing_like_them_is_written(self, baleen: Baleen) -> None:
        dev = [
            {"uid": "1", "claim": "Michael Mann directed the film Heat.", "supporting_facts": [], "label": "SUPPORTED"}
        ]
        Path("dev.json").write_text(json.dumps(dev))
        done = baleen("hotpotqa:train.json", "--out", "c.jsonl", "--avoid", "hover:dev.json", "--json")
        assert "Michael Mann directed the film Heat." not in {each["text"] for each in lines("c.jsonl")}
        assert json.loads(done.out)["left_out"]["like a question to avoid"] >= 1

    def test_nor_anything_over_the_same_passages(self, baleen: Baleen) -> None:
        facts = [["michael mann", 3], ["Heat (film)", 2]]
        dev = [{"uid": "1", "claim": "Nothing of the sort.", "supporting_facts": facts, "label": "SUPPORTED"}]
        Path("dev.json").write_text(json.dumps(dev))
        done = baleen("hotpotqa:train.json", "--out", "c.jsonl", "--avoid", "hover:dev.json")
        assert done.code == DatasetError.exit_code
        assert "none of 6 questions could be restated" in done.err
        assert not Path("c.jsonl").exists()


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["train.json"], "'train.json': expected DATASET:FILE"),
            (["hotpotqa:train.json", "--avoid", "dev.json"], "expected DATASET:FILE"),
            (["hotpotqa:train.json", "--false", "-1"], "false"),
        ],
    )
    def test_of_arguments_that_cannot_be_read(self, baleen: Baleen, arguments: list[str], message: str) -> None:
        done = baleen(*arguments, "--out", "c.jsonl")
        assert done.code == 2
        assert message in " ".join(done.err.replace("│", " ").split())

    @pytest.mark.parametrize(
        ("item", "message"),
        [
            ("hotpotqa:nothing.json", "nothing.json: no such file"),
            ("hotpotq:train.json", "did you mean 'hotpotqa'?"),
            ("hotpotqa:empty.json", "an empty file"),
        ],
    )
    def test_of_questions_that_cannot_be_read(self, baleen: Baleen, item: str, message: str) -> None:
        Path("empty.json").write_text("[]")
        done = baleen(item, "--out", "c.jsonl")
        assert done.code == DatasetError.exit_code
        assert message in done.err
        assert not Path("c.jsonl").exists()

    @pytest.mark.parametrize(
        ("out", "message"), [("claims.txt", "cannot tell the format"), ("nowhere/claims.jsonl", "no such folder")]
    )
    def test_of_a_file_that_cannot_be_written_before_anything_is_read(
        self, baleen: Baleen, out: str, message: str
    ) -> None:
        done = baleen("hotpotqa:nothing.json", "--out", out)
        assert done.code == CorpusError.exit_code
        assert message in done.err

    def test_of_questions_that_nothing_can_be_made_of_leaves_no_file(self, baleen: Baleen) -> None:
        Path("train.json").write_text(json.dumps([{"_id": "1", "question": "Why?", "answer": "money"}]))
        done = baleen("hotpotqa:train.json", "--out", "c.jsonl")
        assert done.code == DatasetError.exit_code
        assert "none of 1 questions could be restated" in done.err
        assert sorted(path.name for path in Path().iterdir()) == ["train.json"]
