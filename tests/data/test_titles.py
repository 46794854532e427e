from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baleen.data.titles import MAX_WORDS, find_mentions, title_names


class Find:
    """Find some names as themselves, and record the calls."""

    def __init__(self, *names: str) -> None:
        self.names, self.asked = names, list[list[str]]()

    def __call__(self, names: Sequence[str]) -> list[list[str]]:
        self.asked.append(list(names))
        return [[name] if name in self.names else [] for name in names]


def named_in(text: str, *names: str, begins: Collection[int] = (0,)) -> list[str]:
    """The given names that a text mentions."""
    return [name for found in find_mentions(text, Find(*names), begins) for name in found]


# The names of a title

TITLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "words": ("Lena Orlova", ("lena orlova",)),
    "one word": ("Vardal", ("vardal",)),
    "a bracket": ("Casino Royale (2006 film)", ("casino royale 2006 film", "casino royale")),
    "two brackets, of which the last goes": ("Wales (whale) (song)", ("wales whale song", "wales whale")),
    "a bracket that does not end it": ("(I Can't) Go On", ("i can t go on",)),
    "a bracket that is all": ("(Orlova)", ("orlova",)),
    "a bracket after a number": ("1974 (song)", ("1974 song",)),
    "the article": ("The Deep Choir", ("deep choir",)),
    "the article in small letters": ("the Deep Choir", ("deep choir",)),
    "the article further on": ("Into the Deep", ("into the deep",)),
    "the article within a word": ("Theo Vardal", ("theo vardal",)),
    "the article and a bracket": ("The Choir (opera)", ("choir opera", "choir")),
    "marks between words": ("Saint-Exupéry, A. de: L'Œuvre", ("saint exupéry a de l œuvre",)),
    "underscores": ("Deep_Choir", ("deep choir",)),
    "a number with a word": ("2001: A Whale Odyssey", ("2001 a whale odyssey",)),
    "a number alone": ("1974", ()),
    "numbers alone": ("24/7 365", ()),
    "two letters": ("Ob", ()),
    "two letters apart": ("A. B.", ()),
    "three letters": ("Ulm", ("ulm",)),
    "three letters apart": ("A. B. C.", ("a b c",)),
    "too short without its bracket": ("Ob (river)", ("ob river",)),
    "other letters": ("Река Обь", ("река обь",)),
    "letters without a capital": ("鯨の歌", ("鯨の歌",)),
    "sharp s": ("Straße", ("strasse",)),
    "a ligature and wide letters": ("ﬁnal Ｗｈａｌｅ", ("final whale",)),
    "a small letter with a mark of its own": ("İstanbul", ("i̇stanbul",)),
    "nothing": ("", ()),
    "marks alone": (" – (!) ", ()),
}


@pytest.mark.parametrize(("title", "names"), TITLES.values(), ids=TITLES.keys())
def test_a_title_is_the_words_of_a_name(title: str, names: tuple[str, ...]) -> None:
    assert title_names(title) == names


# Where a text has names

TEXTS: dict[str, tuple[str, tuple[str, ...], list[str]]] = {
    "in their order": ("She left Tromsk for Vardal.", ("vardal", "tromsk"), ["tromsk", "vardal"]),
    "as often as they come": ("From Vardal to Vardal.", ("vardal",), ["vardal", "vardal"]),
    "the longest": ("At the University of Vardal.", ("university", "vardal", "university of vardal"), ["university of vardal"]),
    "the first where two overlap": ("In New York Times Square.", ("new york times", "times square"), ["new york times"]),
    "the longest of the first word, not of all": ("Old New York City.", ("old new", "new york city"), ["old new"]),
    "after one that ended": ("New York City Hall.", ("new york", "city hall"), ["new york", "city hall"]),
    "without the article": ("He wrote The Deep Choir.", ("deep choir",), ["deep choir"]),
    "with another article": ("He wrote the Deep Choir.", ("deep choir",), ["deep choir"]),
    "not from a small letter on": ("He wrote a deep Choir.", ("deep choir",), []),
    "not in small letters": ("She came from vardal.", ("vardal",), []),
    "with small letters behind": ("It is a Humpback whale.", ("humpback whale",), ["humpback whale"]),
    "in capitals": ("It was in VARDAL.", ("vardal",), ["vardal"]),
    "with a capital inside": ("He has an iPhone.", ("iphone",), ["iphone"]),
    "of another number": ("Two Humpback whales.", ("humpback whale",), []),
    "with a number before": ("She saw 2001 a whale odyssey.", ("2001 a whale odyssey",), ["2001 a whale odyssey"]),
    "with a digit and small letters": ("He ran 20th Century Fox.", ("20th century fox",), ["20th century fox"]),
    "not a number alone": ("It closed in 1974.", ("1974",), []),
    "not what is too short": ("It is the Ob.", ("ob",), []),
    "with an apostrophe behind": ("It is Vardal's mayor.", ("vardal",), ["vardal"]),
    "with an apostrophe within": ("They saw Pan’s Labyrinth.", title_names("Pan's Labyrinth"), ["pan s labyrinth"]),
    "with a hyphen within": ("By Saint-Exupéry, then.", title_names("Saint Exupéry"), ["saint exupéry"]),
    "with a hyphen between two": ("On the Tromsk–Vardal line.", ("tromsk", "vardal"), ["tromsk", "vardal"]),
    "in brackets": ("A town (Vardal) there.", ("vardal",), ["vardal"]),
    "in wide letters": ("It is Ｖardal.", ("vardal",), ["vardal"]),
    "in letters without capitals": ("これは 鯨の歌 です", ("鯨の歌",), ["鯨の歌"]),
    "with a mark that its small letter has of its own": ("It is İstanbul.", title_names("İstanbul"), ["i̇stanbul"]),
    "not within a word": ("The Vardalians sing.", ("vardal",), []),
    "several words at the start": ("Lena Orlova sings.", ("lena orlova",), ["lena orlova"]),
    "not one word at the start": ("Vardal sings.", ("vardal",), []),
    "one word at the start, but for the article": ("The Choir sings.", ("choir",), ["choir"]),
    "the second word at the start": ("In Vardal.", ("vardal",), ["vardal"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "names", "found"), TEXTS.values(), ids=TEXTS.keys())
def test_a_text_calls_something_by_name(text: str, names: tuple[str, ...], found: list[str]) -> None:
    assert named_in(text, *names) == found


def test_a_single_word_is_no_name_where_any_sentence_begins() -> None:
    text = "Whales sing. Vardal sleeps. Ivo Brandt is awake."
    assert named_in(text, "whales", "vardal", "ivo brandt") == ["vardal", "ivo brandt"]
    begins = [text.index(word) for word in ("Whales", "Vardal", "Ivo")]
    assert named_in(text, "whales", "vardal", "ivo brandt", "ivo", begins=begins) == ["ivo brandt"]
    assert named_in(text, "whales", "vardal", begins=()) == ["whales", "vardal"]


def test_a_separate_accent_does_not_split_a_word() -> None:
    apart = unicodedata.normalize("NFD", "Márió Németh")
    assert title_names(apart) == title_names("Márió Németh") == ("márió németh",)
    text = unicodedata.normalize("NFD", "Élan is old. Németh met Márió Németh.")
    begins = (0, text.index("Ne"))
    assert named_in(text, "élan", "németh", "márió németh", begins=begins) == ["márió németh"]


def test_sentences_begin_where_they_do_whatever_is_written_otherwise_before_them() -> None:
    text = "It is ½ … of it. Vardal sleeps. In ﬁve ﬂats Vardal wakes. Tromsk sleeps."
    begins = [text.index(words) for words in ("It is", "Vardal sl", "In", "Tromsk")]
    assert named_in(text, "vardal", "tromsk", begins=begins) == ["vardal"]
    assert named_in(text, "vardal", "tromsk", begins=begins[:2]) == ["vardal", "tromsk"]


def test_a_name_has_a_maximum_of_words() -> None:
    words = [f"Word{number}" for number in range(MAX_WORDS + 1)]
    for count, found in ((MAX_WORDS, 1), (MAX_WORDS + 1, 0)):
        (name,) = title_names(" ".join(words[:count]))
        assert len(named_in(f"It is {' '.join(words[:count])}.", name)) == found


@pytest.mark.parametrize(
    "text", ["", " … ", "nothing here has a name", "Lena Orlova teaches at the University of Vardal."]
)
def test_find_is_called_once(text: str) -> None:
    find = Find("vardal")
    list(find_mentions(text, find))
    assert len(find.asked) == 1


def test_find_is_called_with_every_possible_name() -> None:
    find = Find()
    assert list(find_mentions("Ivo met the Deep Choir", find)) == []
    assert find.asked == [
        ["ivo met the deep choir", "ivo met the deep", "ivo met the", "ivo met", "deep choir", "deep", "choir"]
    ]


def test_every_passage_with_a_name_is_found() -> None:
    def find(names: Sequence[str]) -> list[tuple[str, ...]]:
        return [("p1", "p2") if name == "vardal" else () for name in names]

    assert list(find_mentions("In Vardal.", find)) == [("p1", "p2")]


WORDS = st.text("abcdefghéжß", min_size=3, max_size=6).map(str.capitalize)


@given(st.lists(WORDS, min_size=1, max_size=MAX_WORDS), st.sampled_from([" ", "-", ", ", "’"]))
def test_a_title_is_found_wherever_a_text_has_it(words: list[str], mark: str) -> None:
    (name,) = title_names(" ".join(words))
    assert named_in(f"it is {mark.join(words)}, so to speak", name) == [name]


@given(st.text("AabéЖ7 .'-", max_size=60), st.sets(st.integers(0, 60)))
def test_no_word_is_in_two_names(text: str, begins: set[int]) -> None:
    every = find_mentions(text, lambda names: [[name] for name in names], begins)
    words = re.findall(r"\w+", text.casefold())
    for (name,) in every:
        parts = name.split()
        first = next(n for n in range(len(words)) if words[n : n + len(parts)] == parts)
        words = words[first + len(parts) :]


@given(st.text(max_size=60), st.sets(st.integers(0, 60)))
def test_any_text_may_be_looked_through(text: str, begins: set[int]) -> None:
    title_names(text)
    assert list(find_mentions(text, Find(), begins)) == []
