"""Gold sentences inferred for datasets that annotate gold passages alone.

likely_sentences        by words: shared with the question, in another gold passage's title, in the answer.
                        Used by the hops of retriever training and by stage 1 of the condenser.
sentence_agreement      how often the sentence inferred by stage 1 is gold, on passages with annotated sentences
facts_without_search    gold facts and distractors from the gold passages alone, for questions that are not searched
                        for: stage 2 and the readers need no more, and search is the main cost of a large file
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

NAMES_ANOTHER = 0.3  # score for the title of another gold passage; shared words score from 0 to 1
HOLDS_ANSWER = 0.5  # score for the answer
MOST = 2  # likely sentences of a passage
CLOSE = 0.7  # minimum score of further likely sentences, as a share of the best


def likely_sentences(passages: Lookup, most: int = MOST) -> SentenceChoice:
    """The likeliest sentence of a passage and those close to it, `most` at most; the first one if all score 0."""
    chosen: dict[tuple[str, str], list[int]] = {}  # the same question comes up at every hop

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
    """A scorer of the likelihood of each sentence, for gold passages of these examples."""
    asked = {(example.text, pid): example for example in examples for pid in example.gold}

    def score(query: Query, passage: Passage) -> Sequence[float]:
        return likelihoods(asked[query.text, passage.pid], passage, passages)

    return score


def likelihoods(example: Example, passage: Passage, passages: Lookup) -> list[float]:
    """The likelihood of every sentence of a gold passage."""
    others = [name_words(passages(pid).title) for pid in dict.fromkeys(example.gold) if pid != passage.pid]
    answer = words(example.answer or "") if is_extractive(example.answer) else ()
    said = [words(sentence) for sentence in passage.sentences]
    shares = _shares(example, passage.title, said)
    return [share + _signs(join_words(own), others, answer) for share, own in zip(shares, said, strict=True)]


def word_overlaps(example: Example, passage: Passage) -> list[float]:
    """The share of the question's words that each sentence has."""
    return _shares(example, passage.title, map(words, passage.sentences))


def _shares(example: Example, title: str, sentences: Iterable[Sequence[str]]) -> list[float]:
    asked = content_words(example.text) - content_words(title)
    return [len(asked.intersection(own)) / max(1, len(asked)) for own in sentences]


def _signs(sentence: str, others: Iterable[Sequence[str]], answer: Sequence[str]) -> float:
    named = any(contains_words(other, sentence) for other in others)
    return NAMES_ANOTHER * named + HOLDS_ANSWER * contains_words(answer, sentence)


@dataclass(frozen=True, slots=True)
class SentenceAgreement(Record):
    """Gold `passages` with annotated sentences: how many have a gold `inferred`, `likely` or `first` sentence."""

    passages: int = 0
    inferred: int = 0
    likely: int = 0
    first: int = 0


def sentence_agreement(cross_encoder: CrossEncoder, steps: Sequence[Step], passages: Lookup) -> SentenceAgreement:
    """Infer the sentences of gold passages as if none were annotated, and compare with the annotation."""
    known = [step for step in steps if step.state.example.facts]
    return count_agreement(
        known, infer_sentence_scores(cross_encoder, [_without_facts(step) for step in known], passages), passages
    )


def count_agreement(steps: Iterable[Step], scorer: Scorer, passages: Lookup) -> SentenceAgreement:
    """Count the passages whose best sentence by `scorer`, likeliest or first sentence is gold."""
    ways = [scorer_choice(scorer), likely_sentences(passages, most=1), first_sentences(1)]
    found = [_outcome(step.state.example, passages(pid), ways) for step in steps for pid in step.supervised.positives]
    return add_agreements(each for each in found if each is not None)


def scorer_choice(scorer: Scorer) -> SentenceChoice:
    """Choose the sentence with the highest score."""
    return lambda example, passage: gold_sids(example, Query(example.text), passage, scorer)


def _outcome(example: Example, passage: Passage, ways: Sequence[SentenceChoice]) -> SentenceAgreement | None:
    """The counts of one passage; None without annotated sentences."""
    hidden = replace(example, facts=())
    gold = set(gold_sids(example, Query(example.text), passage))
    if not gold:
        return None
    return SentenceAgreement(1, *(int(not gold.isdisjoint(way(hidden, passage))) for way in ways))


def add_agreements(parts: Iterable[SentenceAgreement]) -> SentenceAgreement:
    """The sum of several counts."""
    counts = [(each.passages, each.inferred, each.likely, each.first) for each in parts]
    return SentenceAgreement(*(sum(column) for column in zip(*counts, strict=True)))


def _without_facts(step: Step) -> Step:
    """A step whose dataset annotates passages alone."""
    return replace(step, state=replace(step.state, example=replace(step.state.example, facts=())))


def facts_without_search(passages: Lookup, infer: bool = True) -> Callable[[Example], QuestionFacts]:
    """A function from an example to its gold facts and the other sentences of its gold passages, scored by shared words.

    In a passage without annotated sentences the likeliest one counts as gold, if `infer`.
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
    """The sentences of a passage that are neither blank nor gold."""
    scores = word_overlaps(example, passage)
    facts = (passage.fact(sid, scores[sid], hop) for sid in range(len(scores)) if sid not in gold)
    return [fact for fact in facts if fact.text.strip()]
