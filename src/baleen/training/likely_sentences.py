"""Which sentences of a gold passage a question was likely made from, where its file names passages alone.

A sentence is the likelier the more of the question's words it shares, the passage's own title left out; if it names
another gold passage, which is what leads from one hop to the next; and if it holds the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from baleen.datasets import Example
from baleen.training.condenser_examples import Scorer
from baleen.training.matching import content_words, is_extractive, name_words, spaced, stands_in, words
from baleen.training.supervision import SentenceChoice
from baleen.types import Lookup, Passage, Query

NAMES_ANOTHER = 0.3  # beside a share of words between 0 and 1
HOLDS_ANSWER = 0.5
MOST = 2
CLOSE = 0.7  # of the best score: what is as likely is taken too


def likely_sentences(passages: Lookup, most: int = MOST) -> SentenceChoice:
    """The likeliest sentence of a passage and those close to it, `most` at most; the first one where nothing tells."""

    chosen: dict[tuple[str, str], list[int]] = {}  # a question comes by again at every hop

    def choose(example: Example, passage: Passage) -> Sequence[int]:
        key = example.qid, passage.pid
        if key not in chosen:
            chosen[key] = _likeliest(passage, likelihoods(example, passage, passages), most)
        return chosen[key]

    return choose


def _likeliest(passage: Passage, scores: Sequence[float], most: int) -> list[int]:
    written = [sid for sid, sentence in enumerate(passage.sentences) if sentence.strip()]
    best = max((scores[sid] for sid in written), default=0.0)
    if not best:
        return written[:1]
    ranked = sorted(written, key=lambda sid: (-scores[sid], sid))[:most]
    return sorted(sid for sid in ranked if scores[sid] >= CLOSE * best)


def likelihood_scorer(examples: Iterable[Example], passages: Lookup) -> Scorer:
    """The same as a score of every sentence, for passages of these examples."""
    asked = {(example.text, pid): example for example in examples for pid in example.gold}

    def score(query: Query, passage: Passage) -> Sequence[float]:
        return likelihoods(asked[query.text, passage.pid], passage, passages)

    return score


def likelihoods(example: Example, passage: Passage, passages: Lookup) -> list[float]:
    """Of every sentence of a gold passage, beside the others."""
    others = [name_words(passages(pid).title) for pid in dict.fromkeys(example.gold) if pid != passage.pid]
    answer = words(example.answer or "") if is_extractive(example.answer) else ()
    said = [words(sentence) for sentence in passage.sentences]
    shares = _shares(example, passage.title, said)
    return [share + _signs(spaced(own), others, answer) for share, own in zip(shares, said, strict=True)]


def shared_words(example: Example, passage: Passage) -> list[float]:
    """Of every sentence, how many of the question's words it shares, as a share of them all."""
    return _shares(example, passage.title, map(words, passage.sentences))


def _shares(example: Example, title: str, sentences: Iterable[Sequence[str]]) -> list[float]:
    asked = content_words(example.text) - content_words(title)
    return [len(asked.intersection(own)) / max(1, len(asked)) for own in sentences]


def _signs(sentence: str, others: Iterable[Sequence[str]], answer: Sequence[str]) -> float:
    named = any(stands_in(other, sentence) for other in others)
    return NAMES_ANOTHER * named + HOLDS_ANSWER * stands_in(answer, sentence)
