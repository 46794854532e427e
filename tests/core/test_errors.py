from __future__ import annotations

import re

import pytest

from baleen.core import errors
from baleen.core.errors import BaleenError, MissingExtraError

USAGE_EXIT_CODE = 2

TREE_LINE = re.compile(
    r"^    (?P<branches>[│├└─ ]*)(?P<name>\w+Error) +(?P<code>\d+) +(?P<status>\d+)(?:   ?(?P<what>.*))?$"
)


def descendants(kind: type[BaleenError]) -> list[type[BaleenError]]:
    """Depth first, in the order of their definition; those of other modules (and tests) left out."""
    children = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    return [kind, *(found for child in children for found in descendants(child))]


def depth(kind: type[BaleenError]) -> int:
    return kind.__mro__.index(BaleenError)


def drawn() -> list[tuple[str, int, int, int]]:
    """(name, depth, exit code, status) of every line of the tree in the docstring of `errors.py`."""
    matches = [match for line in (errors.__doc__ or "").splitlines() if (match := TREE_LINE.match(line))]
    return [(m["name"], len(m["branches"]) // 4, int(m["code"]), int(m["status"])) for m in matches]


def test_the_drawn_tree_is_the_tree_of_classes() -> None:
    assert drawn() == [
        (kind.__name__, depth(kind), kind.exit_code, kind.http_status) for kind in descendants(BaleenError)
    ]


def test_every_error_has_an_exit_code_of_its_own() -> None:
    codes = [kind.exit_code for kind in descendants(BaleenError)]
    assert len(set(codes)) == len(codes)


def test_no_exit_code_means_success_or_a_usage_error_or_a_signal() -> None:
    for kind in descendants(BaleenError):
        assert 0 < kind.exit_code < 64
        assert kind.exit_code != USAGE_EXIT_CODE


@pytest.mark.parametrize("kind", descendants(BaleenError))
def test_every_status_is_an_http_error(kind: type[BaleenError]) -> None:
    assert 400 <= kind.http_status < 600


def test_a_missing_extra_says_how_to_install_it() -> None:
    message = str(MissingExtraError.of("zstandard", "eval", "reading .zst files"))
    assert message == (
        "reading .zst files needs the package 'zstandard', which is not installed: pip install 'baleen[eval]'"
    )
