"""Questions that synthetic ones must not resemble."""

from __future__ import annotations

from baleen.data.example import Example
from baleen.synthesis.avoiding import Avoided, name_key

NUMBERS = {"roe": [0], "low": [1], "brenholt": [2, 5], "p7": [7]}
QUESTION = "In which harbour town was the director of the film born in 1931?"


def avoided(*gold: str, text: str = QUESTION) -> Avoided:
    return Avoided([Example("q", text, gold)], NUMBERS)


class TestGold:
    def test_the_same_passages_in_any_order_are_avoided(self) -> None:
        assert avoided("Roe", "Low").is_like("Something else altogether is said.", (1, 0))

    def test_other_sets_of_passages_are_not_avoided(self) -> None:
        for gold in ((0,), (0, 1, 7), (0, 7)):
            assert not avoided("Roe", "Low").is_like("Something else altogether is said.", gold)

    def test_passages_match_by_id_or_title_in_any_spelling(self) -> None:
        assert name_key("Ro&eacute;  Hall") == name_key("roe\u0301 hall")
        assert avoided("p7", "ROE").is_like("Something else altogether is said.", (0, 7))

    def test_a_title_of_several_passages_may_mean_each_of_them(self) -> None:
        for number in (2, 5):
            assert avoided("Roe", "Brenholt").is_like("Something else altogether is said.", (0, number))

    def test_single_or_unknown_gold_passages_avoid_nothing(self) -> None:
        for gold in (("Roe",), ("Roe", "Nobody"), ()):
            assert not avoided(*gold).is_like("Something else altogether is said.", (0, 1))


class TestText:
    def test_the_same_words_are_avoided_with_any_passages(self) -> None:
        assert avoided().is_like(QUESTION.upper(), (3, 4))

    def test_half_of_the_runs_of_four_words_are_too_many(self) -> None:
        likeness = Avoided([Example("q", "one two three four five six")])
        assert likeness.is_like("one two three four five nine", (3, 4))
        assert likeness.is_like("one two three four five nine ten", (3, 4))
        assert not likeness.is_like("one two three four seven eight nine ten", (3, 4))

    def test_runs_of_different_questions_do_not_add_up(self) -> None:
        both = Avoided([Example("a", "one two three four"), Example("b", "five six seven eight")])
        assert not both.is_like("one two three four five six seven eight", (3, 4))

    def test_a_text_of_fewer_than_four_words_is_one_run(self) -> None:
        assert Avoided([Example("q", "one two")]).is_like("One two.", (3, 4))
        assert not Avoided([Example("q", "one two")]).is_like("One two three.", (3, 4))


def test_without_questions_nothing_is_avoided() -> None:
    assert not Avoided().is_like(QUESTION, (0, 1))
