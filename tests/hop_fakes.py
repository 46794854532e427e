"""Parts of a run whose every score is written down: a cross-encoder that reads its scores from a script, and a retriever
that is told where each claim and each sentence leads.

What they read is real: `CrossInputs` over the tokenizer of `fakes.py`.  A score is looked up by decoding the tokens that
stand behind each marker, so a score that slipped to the sentence beside would come out as another number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from baleen.core.types import Fact, Hit, Passage, Query, Ranking
from baleen.hops.retriever import Retrieval
from baleen.index.protocol import DEFAULT_OPTIONS, SearchOptions
from baleen.models.cross_encoder import HEADS
from baleen.models.pairs import CrossConfig, CrossInput, CrossInputs
from baleen.models.tokens import SpecialTokens
from fakes import BERT_TOKENS, CORPUS, vocabulary, wordpiece

Array = npt.NDArray[np.float32]
Score = float | Callable[[set[str]], float]
"""Of a sentence: a number, or a function of all the known sentences that are read in the same sequence."""
Script = Mapping[str, Score] | Callable[[CrossInput], Any]
"""Of a head: scores by sentence (without its title), or a function of the sequence."""

TOKENS = SpecialTokens("[CLS]", "[SEP]", "[PAD]", "[MASK]")
TOKENIZER = str(wordpiece(vocabulary(), BERT_TOKENS).to_str())
UNKNOWN = -5.0  # the score of what no script speaks of

CLAIM = "Who is the mayor of the town where Lena Orlova teaches?"
TEACHES, STANDS, MAYOR = (CORPUS[number].sentences[1] for number in (0, 1, 2))


def cross_inputs(**settings: Any) -> CrossInputs:
    return CrossInputs(TOKENIZER, TOKENS, CrossConfig(**settings))


class ScriptedCrossEncoder:
    """Serves as a CrossEncoder; `script` maps heads to what they say, `asked` notes the rows that each was asked for."""

    def __init__(self, outputs: Mapping[str, tuple[str, ...]] | None = None, **script: Script) -> None:
        self.inputs, self.script = cross_inputs(), script
        self.asked: list[tuple[str, int]] = []
        self._outputs = {name: head.outputs for name, head in HEADS.items()} | dict(outputs or {})

    def outputs(self, head: str) -> tuple[str, ...]:
        return self._outputs[head]

    def score(self, head: str, rows: Sequence[CrossInput]) -> list[Array]:
        self.asked.append((head, len(rows)))
        script = self.script[head]
        if callable(script):
            return [np.asarray(script(row), np.float32) for row in rows]
        return [self._look_up(script, row) for row in rows]

    def submit(self, head: str, rows: Sequence[CrossInput]) -> Callable[[], list[Array]]:
        said = self.score(head, rows)
        return lambda: said

    def _look_up(self, script: Mapping[str, Score], row: CrossInput) -> Array:
        known = {tuple(self._tokens(text)): text for text in script}
        names = [known.get(tuple(part)) for part in map(self._without_title, self.parts(row))]
        together = {name for name in names if name is not None}
        return np.array([[self._number(script, name, together)] for name in names], np.float32)

    def parts(self, row: CrossInput) -> list[list[int]]:
        """The tokens that each place of a row stands for: those behind its marker, or the whole right side."""
        if row.places == [0]:
            return [row.ids[row.right : -1]]
        ends = [*row.places[1:], len(row) - 1]
        return [row.ids[place + 1 : end] for place, end in zip(row.places, ends, strict=True)]

    def _without_title(self, tokens: list[int]) -> list[int]:
        bar = self._tokens("|")[0]
        return tokens[tokens.index(bar) + 1 :] if bar in tokens else tokens

    def _tokens(self, text: str) -> list[int]:
        return list(self.inputs.tokenizer.encode(text, add_special_tokens=False).ids)

    @staticmethod
    def _number(script: Mapping[str, Score], name: str | None, together: set[str]) -> float:
        score = UNKNOWN if name is None else script[name]
        return score(together) if callable(score) else score


class ScriptedRetriever:
    """Serves as a Retriever over a small corpus.

    `leads` maps a claim or the text of a fact to the passages that it leads to.  Those of the newest fact are ranked
    first, those of the claim after those of the facts, and all other passages follow in the corpus's order.
    """

    def __init__(self, leads: Mapping[str, Sequence[str]], corpus: Sequence[Passage] = CORPUS) -> None:
        self.leads, self.corpus = leads, {passage.pid: passage for passage in corpus}
        self.asked: list[list[Query]] = []

    def retrieve(
        self, queries: Sequence[Query], k: int = 10, options: SearchOptions = DEFAULT_OPTIONS
    ) -> list[Retrieval]:
        self.asked.append(list(queries))
        return [self._retrieve(query, k, without) for query, without in zip(queries, options.exclude, strict=True)]

    def _retrieve(self, query: Query, k: int, without: Collection[str]) -> Retrieval:
        texts = [*(fact.text for fact in reversed(query.facts)), query.text]
        order = dict.fromkeys([*(pid for text in texts for pid in self.leads.get(text, ())), *self.corpus])
        pids = [pid for pid in order if pid not in without][:k]
        ranking = Ranking(tuple(Hit(pid, float(-rank)) for rank, pid in enumerate(pids)))
        return Retrieval(ranking, query.text, {"encode": 0.0, "search": 0.0}, {"encode": len(texts)})

    def passage(self, pid: str) -> Passage:
        return self.corpus[pid]

    def passages(self, pids: Sequence[str]) -> list[Passage]:
        return [self.corpus[pid] for pid in pids]


def chain() -> ScriptedRetriever:
    """The claim leads to its first passage, and a sentence of each to the next."""
    return ScriptedRetriever({CLAIM: ["p0"], TEACHES: ["p1"], STANDS: ["p2"]})


def facts_of(*places: tuple[str, int], score: float = 0.0, hop: int = 1) -> tuple[Fact, ...]:
    """Sentences of the corpus as facts, by (pid, sid)."""
    passages = {passage.pid: passage for passage in CORPUS}
    return tuple(Fact(pid, sid, passages[pid].title, passages[pid].sentences[sid], score, hop) for pid, sid in places)
