"""Which sentences of a gold passage a question was likely made from, where its file names passages alone.

A sentence is the likelier the more of the question's words it shares, the passage's own title left out; if it names
another gold passage, which is what leads from one hop to the next; and if it holds the answer.

How often an inferred sentence is a gold one, told on passages whose gold sentences are known and hidden for it.

Where a dataset names passages alone, the condenser's second stage and the readers learn from sentences that stage 1 takes
for gold; stage 1 and the retriever's hops from likely ones (likely_sentences.py).  Whether that can be trusted shows where the truth is known.

Questions that are read and never searched for: distractors come from the gold passages themselves.

Searching is what a large file of questions costs most; stage 2 of the condenser and the readers need no more than gold
facts and others beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from baleen.core.records import Record
from baleen.core.types import Fact, Lookup, Passage, Query
from baleen.data.example import Example
from baleen.hops.condenser import top_facts
from baleen.models.cross_encoder import CrossEncoder
from baleen.training.cross_encoder.condenser_examples import Scorer, gold_sids
from baleen.training.cross_encoder.inference import KEPT, QuestionFacts, infer_sentence_scores
from baleen.training.hop_order.evidence_match import (
    contains_words,
    content_words,
    is_extractive,
    join_words,
    name_words,
    words,
)
from baleen.training.hop_order.supervision import SentenceChoice, Step, first_sentences

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
    top_facts = max((scores[sid] for sid in written), default=0.0)
    if not top_facts:
        return written[:1]
    ranked = sorted(written, key=lambda sid: (-scores[sid], sid))[:most]
    return sorted(sid for sid in ranked if scores[sid] >= CLOSE * top_facts)


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
    return [share + _signs(join_words(own), others, answer) for share, own in zip(shares, said, strict=True)]


def word_overlaps(example: Example, passage: Passage) -> list[float]:
    """Of every sentence, how many of the question's words it shares, as a share of them all."""
    return _shares(example, passage.title, map(words, passage.sentences))


def _shares(example: Example, title: str, sentences: Iterable[Sequence[str]]) -> list[float]:
    asked = content_words(example.text) - content_words(title)
    return [len(asked.intersection(own)) / max(1, len(asked)) for own in sentences]


def _signs(sentence: str, others: Iterable[Sequence[str]], answer: Sequence[str]) -> float:
    named = any(contains_words(other, sentence) for other in others)
    return NAMES_ANOTHER * named + HOLDS_ANSWER * contains_words(answer, sentence)


@dataclass(frozen=True, slots=True)
class SentenceAgreement(Record):
    """Of gold `passages` with known gold sentences: of how many is the `inferred` sentence gold, a `likely`, the `first`."""

    passages: int = 0
    inferred: int = 0
    likely: int = 0
    first: int = 0


def sentence_agreement(cross_encoder: CrossEncoder, steps: Sequence[Step], passages: Lookup) -> SentenceAgreement:
    """Infer the sentences of every gold passage as if none were known, and compare with those that are."""
    known = [step for step in steps if step.state.example.facts]
    return count_agreement(
        known, infer_sentence_scores(cross_encoder, [_hidden(step) for step in known], passages), passages
    )


def count_agreement(steps: Iterable[Step], scorer: Scorer, passages: Lookup) -> SentenceAgreement:
    """The best sentence by `scorer`, the likeliest and the first, beside the gold ones of each passage that a step found."""
    ways = [scorer_choice(scorer), likely_sentences(passages, most=1), first_sentences(1)]
    found = [_outcome(step.state.example, passages(pid), ways) for step in steps for pid in step.supervised.positives]
    return add_agreements(each for each in found if each is not None)


def scorer_choice(scorer: Scorer) -> SentenceChoice:
    """The sentence that stands highest with a scorer."""
    return lambda example, passage: gold_sids(example, Query(example.text), passage, scorer)


def _outcome(example: Example, passage: Passage, ways: Sequence[SentenceChoice]) -> SentenceAgreement | None:
    """Of one passage; None where none of its sentences is known."""
    hidden = replace(example, facts=())
    gold = set(gold_sids(example, Query(example.text), passage))
    if not gold:
        return None
    return SentenceAgreement(1, *(int(not gold.isdisjoint(way(hidden, passage))) for way in ways))


def add_agreements(parts: Iterable[SentenceAgreement]) -> SentenceAgreement:
    """What several come to together."""
    counts = [(each.passages, each.inferred, each.likely, each.first) for each in parts]
    return SentenceAgreement(*(sum(column) for column in zip(*counts, strict=True)))


def _hidden(step: Step) -> Step:
    """As of a dataset that names passages alone."""
    return replace(step, state=replace(step.state, example=replace(step.state.example, facts=())))


def facts_without_search(passages: Lookup, infer: bool = True) -> Callable[[Example], QuestionFacts]:
    """A function from an example to the sentences of its gold passages.

    The gold ones, and the others by how many words they share with it.  Where no sentence of a passage is known for
    gold, the likeliest is, if `infer`.
    """

    def scored(example: Example) -> QuestionFacts:
        scorer = likelihood_scorer([example], passages) if infer else None
        hops = {pid: hop for hop, pid in enumerate(dict.fromkeys(example.order), 1)}
        gold, others = list[Fact](), list[Fact]()
        for passage in map(passages, dict.fromkeys(example.gold)):
            sids, hop = gold_sids(example, Query(example.text), passage, scorer), hops.get(passage.pid, 0)
            gold += [passage.fact(sid, 0.0, hop) for sid in sids]
            others += top_facts(_others(example, passage, sids, hop), KEPT)
        return QuestionFacts(example.qid, tuple(others), tuple(gold))

    return scored


def _others(example: Example, passage: Passage, gold: Sequence[int], hop: int) -> list[Fact]:
    """The sentences of a passage that are not blank, but for the gold ones."""
    scores = word_overlaps(example, passage)
    facts = (passage.fact(sid, scores[sid], hop) for sid in range(len(scores)) if sid not in gold)
    return [fact for fact in facts if fact.text.strip()]
