"""Closed classes of English words for the rules of synthesis.

They are narrow on purpose.  A corpus has far more sentences than are needed, so a sentence that the lists do not cover
is skipped: skipping costs nothing, misreading costs a bad claim.
"""

from __future__ import annotations

from baleen.synthesis.past_verbs import REGULAR_PASTS
from baleen.synthesis.words import word_set

COPULAS = word_set("is was are were")
AUXILIARIES = COPULAS | word_set("has had have can will may must could would")

# Words between a subject and its verb.
ADVERBS = word_set(
    """also then later currently formerly previously originally first now soon eventually subsequently often usually once
    never still briefly recently primarily mainly initially officially successfully twice frequently generally typically
    regularly mostly finally ultimately commonly largely famously notably historically traditionally publicly formally"""
)

# Irregular past forms.
IRREGULAR_PASTS = word_set(
    """won became made began took went wrote held led ran came left lost sold rose grew fought found gave stood sang rode
    built met broke saw sat got hit flew fell chose ruled brought drew threw sought sank swam shot drove kept sent caught
    bought wore fled put undertook spoke struck swept taught told underwent withdrew oversaw bore beat"""
)

# Irregular pasts that are also participles: after "was born and", they share its "was".
PAST_PARTICIPLES = word_set(
    """won made held led left lost sold fought found stood built met hit brought kept sent caught bought put struck swept
    told sought shot sat got"""
)

PRESENTS = word_set(
    """lies stars plays serves features includes holds consists contains covers runs borders operates lives forms remains
    provides follows offers tells represents works comprises hosts competes takes appears flows belongs uses houses stands
    connects encompasses sits continues owns resides extends ranks begins focuses occupies measures rises carries depicts
    occurs produces falls supports crosses makes marks writes stretches portrays specializes spans passes teaches acts refers
    travels maintains performs participates describes grows publishes shows allows deals incorporates receives goes
    originates lacks involves presents employs combines drains joins revolves explores functions differs meets manages
    coaches derives straddles overlooks aims retains specialises links centers possesses speaks constitutes finds adjoins
    conducts sings attracts bears chronicles trains exists leads traces feeds commemorates promotes oversees creates connects
    organizes reaches requires examines brings helps returns heads ranges handles enables wears exhibits contributes reflects
    protects fills separates enjoys calls sells attends sets manufactures celebrates utilizes introduces traverses defines
    administers displays explains surrounds drives studies controls divides designs builds identifies celebrates discusses
    implements computes accepts converts replaces adds removes checks reads loads stores parses generates applies gives"""
)

# Verbs that are as often nouns: they start a clause after its subject, but not after "and".
ALSO_NOUNS = word_set(
    """stars plays works ranks marks shows links centers trains feeds heads handles sets calls studies controls designs
    features houses covers aims acts forms drives records returns measures functions deals reads loads stores checks"""
)

PREPOSITIONS = word_set(
    """in at by for from with of on to against under near into through during between within alongside over across after
    before around outside inside beside behind towards toward via upon along among beneath above below"""
)

# Words before a mention that a phrase with its own article can replace.
BEFORE_MENTION = PREPOSITIONS | word_set("and or than featuring starring including joining")

# Words after the noun of a definition.
AFTER_NOUN = PREPOSITIONS - {"of"} | word_set(
    """who whose whom which that where when based located situated directed written produced released starring known
    published created developed built founded established formed hosted featuring originally currently composed designed
    recorded consisting native found used named called born set held played performed owned operated
    made considered since as including being having headquartered running staged serving operating living working only often about also so both than such"""
)

# Nouns that mean little without "of" and its noun.
EMPTY_NOUNS = word_set(
    """one member part type kind form name piece set group series list edition instance example version collection class
    lot number variety range unit result sort branch section subset line pair place title position breed"""
)

# Words that refer to something outside the clause.
DANGLING = word_set(
    """he she it they him them this these those former latter latter's another other
    others same following above below here there respectively however therefore thus such i we you my our your us me
    said who's do does did"""
)

# Words that cannot end a claim.
LOOSE_ENDS = PREPOSITIONS | word_set(
    "a an the and or but as than that which who whose is was are were be been being has had have also his her its their"
)

# Words that start an optional part of a clause after a comma.
AFTER_COMMA = word_set(
    """which who whom whose where when while although though because as but with making becoming including such after before
    having being since despite and also or if so playing winning leading due"""
)

# Opposites, in both directions, that make a claim false.
OPPOSITES: dict[str, str] = {}
for _pair in (
    "won lost",
    "before after",
    "north south",
    "northern southern",
    "east west",
    "eastern western",
    "northeast southwest",
    "northwest southeast",
    "northeastern southwestern",
    "northwestern southeastern",
    "largest smallest",
    "oldest youngest",
    "highest lowest",
    "longest shortest",
    "older younger",
    "larger smaller",
    "opened closed",
    "male female",
    "men's women's",
    "mother father",
    "brother sister",
    "son daughter",
    "husband wife",
    "joined left",
    "summer winter",
    "Summer Winter",
    "supported opposed",
    "upper lower",
    "public private",
    "maternal paternal",
    "rural urban",
    "majority minority",
    "increased decreased",
    "inland coastal",
):
    _one, _two = _pair.split()
    OPPOSITES[_one], OPPOSITES[_two] = _two, _one


def is_past(word: str) -> bool:
    """Whether a word can be a past form."""
    return word in IRREGULAR_PASTS or word in REGULAR_PASTS


def is_finite(word: str) -> bool:
    """Whether a word can start a predicate."""
    return word in AUXILIARIES or word in PRESENTS or is_past(word)


# Kinds of pages about words instead of things.
WORDLY_KINDS = word_set(
    "surname name list term word phrase disambiguation index category abbreviation acronym letter year"
)

# Adjectives at the end of a truncated noun phrase, as in "the most populous".
NOT_NOUNS = word_set(
    """populous northern southern eastern western central main principal primary former first second third fourth fifth last
    only national international public private major minor new old modern general special common important popular former
    large small mountainous tall long short vast prominent famous independent landlocked fast simple rural urban
    professional general-purpose american british english french german local regional federal official capital"""
)

# Kinds of places: locations of a sentence, but nothing to play "for".
PLACES = word_set(
    """city town village municipality capital commune borough suburb district county province state country island region
    territory community locality hamlet parish metropolis seaport port place area neighborhood neighbourhood prefecture"""
)

# Nouns with the ending of an adverb, participle or superlative.
NOUNS_ALL_THE_SAME = word_set(
    """building painting king ring wing spring crossing meeting wedding landing recording ruling string sibling duckling
    forest contest conquest priest guest chest harvest family assembly monopoly anomaly bed seed shed breed"""
)
