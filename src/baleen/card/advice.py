"""The sections that are ours and not the run's: uses, limits and biases, licences.

Which sentences stand there depends on what the run says of itself: its components, labels, data and backbones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from baleen.card.provenance import BY_SA, DATASETS, short_path
from baleen.card.subject import Subject

SMALL = 100_000_000  # parameters; below, a model is called small
_LANGUAGES = {"en": "English"}


def intended(subject: Subject) -> str:
    return _bullets(_uses(subject))


def _uses(subject: Subject) -> Iterator[str]:
    components = subject.run.components
    yield (
        "Finding the passages that a claim or a question needs, hop by hop, in a corpus of your own, and showing which "
        "sentences the outcome rests on."
        if "sentences" in components
        else "Finding the passages that a claim or a question needs in a corpus of your own."
    )
    if "verifier" in components:
        yield "A first verdict on a claim, for somebody who reads the evidence that comes with it."
    if "answerer" in components:
        yield "Short answers that stand in the text, and yes or no, with their evidence."
    yield "Research on multi-hop retrieval, and a start for training on data of your own."


def out_of_scope(subject: Subject) -> str:
    return _bullets(_misuses(subject))


def _misuses(subject: Subject) -> Iterator[str]:
    yield "Decisions about people: work, credit, housing, schooling, insurance, policing, what somebody may say."
    yield "Medical, legal or financial questions, but for work that somebody who knows the field checks from the sources."
    if "verifier" in subject.run.components:
        yield "Calling a claim true or false in public without a person having read the evidence and looked for more."
    yield (
        "Claims about what happened after the corpus was written, or about what it does not cover. The model knows of "
        "nothing but the passages that it is given."
    )
    if subject.languages:
        named = " and ".join(_LANGUAGES.get(each, each) for each in subject.languages)
        yield f"Languages other than {named}: the backbones do not know them, and none was trained on or measured."


def limits(subject: Subject) -> str:
    groups = (_reading_limits(subject), _data_limits(subject), _biases(subject))
    return _bullets(each for group in groups for each in group)


def _reading_limits(subject: Subject) -> Iterator[str]:
    components = subject.run.components
    counts = [each.parameters for each in subject.weights if each.base is None]  # a difference is no encoder by itself
    if counts and max(counts) < SMALL:
        sizes = " and ".join(f"{count / 1e6:.1f}M" for count in counts)
        yield (
            f"**Small encoders** ({sizes} parameters). Expect mistakes where a claim turns on arithmetic, on comparing "
            "dates, on negation, or on what words imply. None of these was measured apart."
        )
    if "verifier" in components:
        yield (
            "**A verdict is statistical, and no proof.** It is a score over the few sentences that were retrieved and "
            "kept, doubtful ones among them. A passage that was missed looks like evidence that does not exist. Scores "
            "were not checked for calibration: .9 does not mean right nine times out of ten."
        )
    if subject.run.labels == 2:
        yield (
            "**Two labels**: supported and not supported. The verifier does not tell a claim that the evidence refutes "
            "from one that the evidence is not enough for: *not supported* does not mean *false*."
        )
    if "answerer" in components:
        yield "**Answers are cut out of sentences that were kept**, or are yes or no: nothing is counted, added or phrased."


def _data_limits(subject: Subject) -> Iterator[str]:
    if subject.datasets:
        yield (
            "**Wikipedia, in English, as it was**: the datasets that people wrote are over English Wikipedia of 2017 to "
            "2020, for the most part over the introductions of articles. Later text, the rest of an article and other "
            "kinds of writing may be read less well; measure on your own before you rely on it."
        )
    if any(each.synthetic for each in subject.trained_on):
        yield (
            f"**Synthetic training questions**{_share(subject)}. Their sentences are put together by rule and read "
            "stiffly, their falsehoods are swaps of a name, a number or a relation, and what they teach of either may "
            "not carry over to what people write."
        )


def _share(subject: Subject) -> str:
    """` (8,000 of 12,454)`, where every file is counted, and no synthetic one together with others."""
    made = [each for each in subject.trained_on if each.synthetic]
    counts = {(each.collection, each.dataset, each.searched): each.questions for each in subject.trained_on}
    if any(count is None for count in counts.values()) or any(each.shared for each in made):
        return ""
    total = sum(count for count in counts.values() if count is not None)
    return f" ({sum(each.questions or 0 for each in made):,} of {total:,})"


def _biases(subject: Subject) -> Iterator[str]:
    if subject.datasets:
        yield (
            "**Wikipedia's biases**: who has an article and who has none, and how people and places are written about. "
            "Men, the English-speaking world and recent decades have more than their share."
        )
    yield (
        "**The backbones' biases**: they were pretrained on text from the web and have its stereotypes. Names of "
        "people and places may move a score. Nothing was done against it, and it was not measured."
    )


# Licences


def licences(subject: Subject, weights: str) -> str:
    """Of the code, of the weights, and of what they were made of."""
    lines = ["Code: MIT.", f"Weights: {weights}, made from {_backbones(subject)}."]
    lines += [f"{DATASETS[name].title}: {DATASETS[name].licence}." for name in subject.datasets]
    if subject.datasets:
        lines.append(f"Wikipedia's text, which these datasets are over: {BY_SA}.")
    if any(each.synthetic for each in subject.trained_on):
        lines.append("Synthetic questions: as the text that they are made of.")
    if any(each.restated for each in subject.trained_on):
        lines.append("Restated claims: as the questions that they are made of.")
    if any(not each.made and each.dataset not in DATASETS for each in subject.trained_on):
        lines.append("Other files of questions: this card does not know their licences; ask whoever made them.")
    if subject.holds_index:
        lines.append(
            "An index that lies beside the weights holds the text of its passages, under the licence of that text."
        )
    return _bullets(lines)


def _backbones(subject: Subject) -> str:
    told = [
        f"`{found.hub}` ({found.licence})"
        if found
        else f"`{_called(subject, name)}` (its licence is not known to this card)"
        for name, found in subject.backbones.items()
    ]
    return " and ".join(told)


def _called(subject: Subject, name: str) -> str:
    """A backbone by the name of its folder; a retriever that was ready with the folder that this lies in, such as a run's."""
    return short_path(name) if name == subject.run.ready else Path(name).name


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
