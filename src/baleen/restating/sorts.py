"""Sorts of things that questions ask for: which names can stand for each other, and which are the same thing twice."""

from __future__ import annotations

import re

from baleen.restating.answers import NAME, WORDS, Answer
from baleen.synthesis.words import word_set

ANYONE, WOMAN, MAN = "anyone", "woman", "man"
SEXES = frozenset({ANYONE, WOMAN, MAN})
_NAME = re.compile(
    r"(?:[A-Z][\w'’.-]+ (?:\"[^\"]+\" )?){1,3}(?:(?:de|van|von|der|la|al|bin|ibn|of) ){0,2}[A-Z][\w'’-]+(?: (?:Jr|Sr|II|III))?"
)
_NOT_PERSON = re.compile(
    r"\b(?:The|Inc|Company|Records|University|Band|Studios|Pictures|Club|Airlines|Party|Group|City|County|Team|Brothers|"
    r"Productions|Entertainment|Corporation|House|Institute|Association|League|Council|Church|Army|Navy|Force|School|College|"
    r"Press|Games|Sisters|Boys|Girls|St\. \w+)\b|&| and "
)
PERSONS = word_set(
    """who actor actress singer director politician player author writer musician composer rapper producer president king queen
    founder father mother wife husband son daughter brother sister grandfather grandmother spouse man woman person artist
    comedian poet novelist journalist footballer golfer boxer driver coach quarterback guitarist drummer bassist vocalist
    songwriter singer-songwriter filmmaker screenwriter cinematographer businessman entrepreneur scientist physicist chemist
    mathematician philosopher historian economist architect painter sculptor model dancer choreographer host presenter star
    creator designer inventor explorer general commander officer senator governor mayor minister emperor leader
    father-in-law mother-in-law stepfather stepmother cousin sibling uncle aunt child chef editor publisher owner performer
    wrestler pitcher swimmer cyclist sprinter skater racer jockey manager lawyer judge activist soldier celebrity conductor"""
)
_WOMEN = word_set("actress mother wife daughter sister grandmother queen woman aunt mother-in-law stepmother princess")
_MEN = word_set("father husband son brother grandfather king man uncle father-in-law stepfather prince businessman")
_ALIKE = {
    "movie": "film",
    "town": "city",
    "village": "city",
    "job": "profession",
    "occupation": "profession",
    "school": "university",
    "college": "university",
    "novel": "book",
    "firm": "company",
}
_VAGUE = word_set(
    """what which name nickname term title thing one group type kind item word phrase aspect part subject area concept purpose
    level quality form feature family series system class order career empire cycle event role"""
)
# Asked for by one noun and yet nothing alike: an answer to one question cannot be one to another.
UNLIKE = word_set("game character member war award movement program team organization company inductee")
_OVERLAPPING = tuple(
    map(
        word_set,
        (
            "writer author novelist poet playwright journalist screenwriter essayist critic",
            "musician singer songwriter singer-songwriter rapper composer guitarist drummer band vocalist",
            "actor actress director filmmaker producer screenwriter film-maker",
            "plant plants genus species flower flowering tree herb shrub",
        ),
    )
)
_ONE_COUNTRY = (
    frozenset({"United States", "America", "USA", "US", "U.S.", "United States of America"}),
    frozenset({"UK", "United Kingdom", "Great Britain", "England", "Scotland", "Wales", "Northern Ireland", "Ireland"}),
    word_set("British English Scottish Welsh Irish European"),
    frozenset({"Russia", "Soviet Union", "Ukraine"}),
    frozenset({"Russian", "Soviet", "Ukrainian"}),
    frozenset({"Korea", "South Korea", "North Korea"}),
    word_set("Asian Indian Chinese Japanese Korean Jewish Israeli"),
    frozenset({"Argentine", "Argentinian"}),
)
COUNTRIES = frozenset(
    """Afghanistan,Albania,Algeria,Argentina,Armenia,Australia,Austria,Azerbaijan,Bangladesh,Belgium,Bolivia,Botswana,Brazil,
    Bulgaria,Canada,Chile,China,Colombia,Croatia,Cuba,Cyprus,Czech Republic,Denmark,Egypt,England,Estonia,Ethiopia,Finland,France,
    Georgia,Germany,Ghana,Greece,Hungary,Iceland,India,Indonesia,Iran,Iraq,Ireland,Israel,Italy,Jamaica,Japan,Kenya,Korea,
    South Korea,North Korea,Latvia,Lebanon,Lithuania,Malaysia,Malta,Mexico,Mongolia,Morocco,Nepal,Netherlands,New Zealand,Nigeria,
    Northern Ireland,Norway,Pakistan,Peru,Philippines,Poland,Portugal,Romania,Russia,Saudi Arabia,Scotland,Serbia,Singapore,
    Slovakia,Slovenia,South Africa,Soviet Union,Spain,Sri Lanka,Sweden,Switzerland,Syria,Taiwan,Thailand,Turkey,UK,US,USA,U.S.,
    Ukraine,United Kingdom,United States,United States of America,Great Britain,America,Venezuela,Vietnam,Wales,Zimbabwe""".replace(
        "\n    ", ""
    ).split(",")
)
STATES = frozenset(
    """Alabama,Alaska,Arizona,Arkansas,California,Colorado,Connecticut,Delaware,Florida,Hawaii,Idaho,Illinois,Indiana,Iowa,Kansas,
    Kentucky,Louisiana,Maine,Maryland,Massachusetts,Michigan,Minnesota,Mississippi,Missouri,Montana,Nebraska,Nevada,New Hampshire,
    New Jersey,New Mexico,North Carolina,North Dakota,Ohio,Oklahoma,Oregon,Pennsylvania,Rhode Island,South Carolina,South Dakota,
    Tennessee,Texas,Utah,Vermont,Virginia,Washington,West Virginia,Wisconsin,Wyoming,Ontario,Quebec,Victoria,
    New South Wales""".replace("\n    ", "").split(",")
)
CONTINENTS = frozenset({"Europe", "Asia", "Africa", "South America", "North America", "Oceania", "Antarctica"})
# Nouns that say nothing of what somebody does, so that anybody can stand for anybody else.
ANYBODY = (
    _WOMEN | _MEN | word_set("who person spouse child sibling cousin founder creator owner leader star performer")
) - {
    "king",
    "queen",
    "prince",
    "princess",
    "actress",
    "businessman",
}


def noun_of(head: str) -> str:
    """The noun that stands for all that mean the same: "film" for "movie"."""
    return _ALIKE.get(head, head)


def sort_of(head: str, answer: Answer) -> str:
    """What was asked for by a noun, wider where names of one sort can stand for each other; empty where it cannot be told."""
    noun = noun_of(head)
    if answer.shape == NAME:
        if bare_name(answer.text) in COUNTRIES:
            return "country"
        if bare_name(answer.text) in STATES:
            return "state"
        if bare_name(answer.text) in CONTINENTS:
            return "continent"
        if noun in PERSONS and is_person(answer.text):
            return WOMAN if noun in _WOMEN else MAN if noun in _MEN else ANYONE
    return "" if answer.shape in {NAME, WORDS} and noun in _VAGUE | PERSONS else noun


def is_person(name: str) -> bool:
    """Whether a name looks like a person's: two to five words, none of which a firm or a band has."""
    return bool(_NAME.fullmatch(name)) and not _NOT_PERSON.search(name)


def is_born(name: str, text: str) -> bool:
    """Whether a text gives years after somebody's name."""
    return bool(re.search(rf"{re.escape(name.split()[-1])}[^.(]{{0,40}}\([^)]*(?:born|\d{{4}})", text))


def are_alike(one: str, other: str) -> bool:
    """Whether two words or names can both be right: a writer who is a novelist, England and the United Kingdom."""
    words = [set(text.lower().split()) for text in (one, other)]
    names = {bare_name(one), bare_name(other)}
    return any(names <= same for same in _ONE_COUNTRY) or any(
        all(each & family for each in words) for family in _OVERLAPPING
    )


def bare_name(name: str) -> str:
    return name.removeprefix("the ").removeprefix("The ")
