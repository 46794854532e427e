"""Counts of synthesized claims."""

from __future__ import annotations

from baleen.synthesis.synthesizing import Claim
from baleen.synthesis.tallying import Tallied


def claim(hops: int, kind: str, label: str | None = None, answer: str | None = None) -> Claim:
    return Claim("0-0", "Text.", ("a", "b"), (), hops, kind, ("a", "b"), (), label, answer)


CLAIMS = [
    claim(2, "chain", "supported"),
    claim(2, "chain", "refuted"),
    claim(3, "tree", "not enough information"),
    claim(2, "bridge", answer="1950"),
    claim(2, "bridge", answer="yes"),
    claim(2, "bridge", answer="no"),
]


def tallied() -> Tallied:
    tally = Tallied()
    assert list(tally.counting(CLAIMS)) == CLAIMS
    return tally


def test_claims_pass_through_and_are_counted_by_hops_kind_and_form() -> None:
    assert tallied().total == 6
    assert tallied().counts() == {
        "hops": {"2": 5, "3": 1},
        "kind": {"bridge": 3, "chain": 2, "tree": 1},
        "form": {"question": 1, "yes/no question": 2, "refuted": 1, "supported": 1, "not enough information": 1},
    }


def test_the_table_has_a_row_for_each_hops_and_kind_and_their_sums() -> None:
    lines = tallied().table().splitlines()
    assert (
        lines[0] == "| hops | kind | supported | refuted | not enough information | question | yes/no question | all |"
    )
    assert lines[2:] == [
        "| 2 | bridge | 0 | 0 | 0 | 1 | 2 | 3 |",
        "| 2 | chain | 1 | 1 | 0 | 0 | 0 | 2 |",
        "| 3 | tree | 0 | 0 | 1 | 0 | 0 | 1 |",
        "| all |  | 1 | 1 | 1 | 1 | 2 | 6 |",
    ]


def test_nothing_counted_is_an_empty_table() -> None:
    assert Tallied().total == 0
    assert Tallied().table().splitlines()[-1] == "| all |  | 0 | 0 | 0 | 0 | 0 | 0 |"
