"""A trace as one JSON document, for programs, servers and files: `write_trace`, `read_trace`, and the JSON schema.

Every fact is in the table `facts` once; lists of facts refer to it: {"fact": id, "score": score}, with "added": true for a
final fact that scores below the thresholds and was added because too few passages supplied facts.  Judgements are written
on request, as they are three quarters of a document.  `final`, `borderline`, `passages`, `words` and `totals` are derived
from the rest, and are not read back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from baleen.core.ranking import best_facts, find_places, rank_passages
from baleen.core.types import (
    Answer,
    Condensed,
    Fact,
    Hit,
    Hop,
    Judgement,
    Query,
    Ranking,
    Trace,
    Verdict,
)

FORMAT_VERSION = 1
OUTCOMES: Mapping[str, type[Verdict] | type[Answer]] = {"verdict": Verdict, "answer": Answer}

Json = dict[str, Any]


def write_trace(trace: Trace, *, judgements: bool = False) -> Json:
    """The document of a trace; only one with judgements is read back as the same trace."""
    table = _FactTable()
    table.refer((*trace.facts, *trace.borderline))  # final facts get the first ids
    body = _body(trace, table, judgements)
    return {"format_version": FORMAT_VERSION, **body, "facts": table.rows}


def read_trace(data: Mapping[str, Any]) -> Trace:
    """The trace of a document; keys that are missing take their defaults, other keys are ignored."""
    version = data.get("format_version", FORMAT_VERSION)
    if version != FORMAT_VERSION or not isinstance(data.get("query"), str):
        raise TypeError(f"a trace of format version {version!r}, or of an older release; expected {FORMAT_VERSION}")
    return _read_body(data, {row["id"]: row for row in data.get("facts", ())})


class _FactTable:
    """Facts by id; a fact is the same in all hops but for its score."""

    def __init__(self) -> None:
        self.rows: list[Json] = []
        self._ids: dict[tuple[str, int, str, str, int], int] = {}

    def refer(self, facts: Iterable[Fact], added: Sequence[Fact] = ()) -> list[Json]:
        """References to facts; those among `added` are marked."""
        return [
            {"fact": self._id(fact), "score": fact.score, **({"added": True} if fact in added else {})}
            for fact in facts
        ]

    def _id(self, fact: Fact) -> int:
        key = (fact.pid, fact.sid, fact.title, fact.text, fact.hop)
        if key not in self._ids:
            self._ids[key] = len(self.rows)
            names = ("pid", "sid", "title", "text", "hop")
            self.rows.append({"id": len(self.rows), **dict(zip(names, key, strict=True))})
        return self._ids[key]


def _body(trace: Trace, table: _FactTable, judgements: bool) -> Json:
    return {
        "query": trace.query.text,
        "known": table.refer(trace.query.facts),
        "outcome": write_outcome(trace.outcome),
        "final": table.refer(trace.facts, trace.fillers),
        "borderline": table.refer(trace.borderline),
        "passages": list(_ranked_passages(trace)),
        "hops": [_hop(hop, table, judgements) for hop in trace.hops],
        "stopped": trace.stopped,
        "ranked_by": trace.ranked_by,
        "untrained": list(trace.untrained),
        "reading": _costs(trace),
        "totals": totals(trace),
        "parts": [_body(part, table, judgements) for part in trace.parts],
    }


def write_outcome(outcome: Verdict | Answer | None) -> Json | None:
    """An outcome with its kind: {"kind": "verdict", ...} or {"kind": "answer", ...}."""
    if outcome is None:
        return None
    (kind,) = (kind for kind, record in OUTCOMES.items() if isinstance(outcome, record))
    return {"kind": kind, **outcome.to_json()}


def _hop(hop: Hop, table: _FactTable, judgements: bool) -> Json:
    written = {
        "query": hop.query.text,
        "known": table.refer(hop.query.facts),
        "encoded_query": hop.encoded_query,
        "excluded": list(hop.excluded),
        "passages": [_passage(hit, hop) for hit in hop.ranking],
        "facts": table.refer(hop.facts),
        "borderline": table.refer(hop.condensed.borderline),
        "reranked": [hit.to_json() for hit in hop.condensed.chosen],
        "retrieving": _costs(hop),
        "condensing": _costs(hop.condensed),
        "words": hop.words,
    }
    return written | ({"judgements": [each.to_json() for each in hop.condensed.judgements]} if judgements else {})


def _passage(hit: Hit, hop: Hop) -> Json:
    mentioned = {"mentioned_by": hop.mentioned[hit.pid]} if hit.pid in hop.mentioned else {}
    return {"pid": hit.pid, "title": hop.titles.get(hit.pid), "score": hit.score, **mentioned}


def _costs(stage: Hop | Condensed | Trace) -> Json:
    return {"seconds": dict(stage.seconds), "tokens": dict(stage.tokens)}


def _ranked_passages(trace: Trace) -> Iterator[Json]:
    """Every passage in the order of the trace, with its place and the score of its best final fact."""
    runs, best = (trace, *trace.parts), best_facts(trace)
    found = find_places(*runs)
    titles = {fact.pid: fact.title for fact in trace.facts}
    titles |= {pid: title for run in runs for hop in run.hops for pid, title in hop.titles.items()}
    for pid in rank_passages(trace).pids:
        place = found.get(pid)
        yield {
            "pid": pid,
            "title": titles.get(pid),
            "score": place and place.score,
            "hop": place and place.hop,
            "rank": place and place.rank,
            "fact_score": best.get(pid),
        }


def totals(trace: Trace) -> Json:
    """Seconds and tokens of a whole run, also by stage, and the words of context that the reader sees."""
    stages: dict[str, dict[str, float]] = {}
    for cost in _all_costs(trace):
        for unit, spent in (("seconds", cost.seconds), ("tokens", cost.tokens)):
            for stage, amount in spent.items():
                own = stages.setdefault(stage, {"seconds": 0.0, "tokens": 0})
                own[unit] += amount
    return {
        "seconds": sum(own["seconds"] for own in stages.values()),
        "tokens": sum(own["tokens"] for own in stages.values()),
        "words": trace.hops[-1].words if trace.hops else 0,
        "stages": stages,
    }


def _all_costs(trace: Trace) -> Iterator[Hop | Condensed | Trace]:
    """Every stage of a run; the parts of a merged run share their first search, which counts once."""
    for part_number, part in enumerate(trace.parts or (trace,)):
        for number, hop in enumerate(part.hops):
            if part_number == 0 or number > 0:
                yield hop
            yield hop.condensed
    yield trace


def _read_body(data: Mapping[str, Any], rows: Mapping[int, Mapping[str, Any]]) -> Trace:
    return Trace(
        query=Query(data["query"], _facts(data.get("known", ()), rows)),
        hops=tuple(_read_hop(hop, rows) for hop in data.get("hops", ())),
        outcome=read_outcome(data.get("outcome")),
        stopped=data.get("stopped", ""),
        parts=tuple(_read_body(part, rows) for part in data.get("parts", ())),
        untrained=tuple(data.get("untrained", ())),
        ranked_by=data.get("ranked_by", "hops"),
        **_read_costs(data.get("reading", {})),
    )


def read_outcome(data: Mapping[str, Any] | None) -> Verdict | Answer | None:
    """The outcome of its kind; an unknown kind is a TypeError."""
    if data is None:
        return None
    fields = {**data}
    kind = fields.pop("kind", None)
    if kind not in OUTCOMES:
        raise TypeError(f"an outcome of kind {kind!r}; expected {' or '.join(OUTCOMES)}")
    return OUTCOMES[kind].from_json(fields)


def _read_hop(data: Mapping[str, Any], rows: Mapping[int, Mapping[str, Any]]) -> Hop:
    passages = data.get("passages", ())
    condensed = Condensed(
        facts=_facts(data.get("facts", ()), rows),
        judgements=tuple(map(Judgement.from_json, data.get("judgements", ()))),
        chosen=Ranking(tuple(map(Hit.from_json, data.get("reranked", ())))),
        borderline=_facts(data.get("borderline", ()), rows),
        **_read_costs(data.get("condensing", {})),
    )
    return Hop(
        query=Query(data["query"], _facts(data.get("known", ()), rows)),
        encoded_query=data.get("encoded_query", ""),
        excluded=tuple(data.get("excluded", ())),
        ranking=Ranking(tuple(Hit(each["pid"], each["score"]) for each in passages)),
        titles={each["pid"]: each["title"] for each in passages if each.get("title") is not None},
        condensed=condensed,
        mentioned={each["pid"]: each["mentioned_by"] for each in passages if "mentioned_by" in each},
        **_read_costs(data.get("retrieving", {})),
    )


def _facts(references: Sequence[Mapping[str, Any]], rows: Mapping[int, Mapping[str, Any]]) -> tuple[Fact, ...]:
    found = ((rows[each["fact"]], each["score"]) for each in references)
    return tuple(Fact(row["pid"], row["sid"], row["title"], row["text"], score, row["hop"]) for row, score in found)


def _read_costs(data: Mapping[str, Any]) -> Json:
    return {"seconds": data.get("seconds", {}), "tokens": data.get("tokens", {})}


# JSON schema

_STRING, _INTEGER, _NUMBER, _BOOLEAN = ({"type": name} for name in ("string", "integer", "number", "boolean"))


def _object(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None, **more: Any) -> Json:
    closed = {"additionalProperties": False} | more
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required), **closed}


def _array(items: Json) -> Json:
    return {"type": "array", "items": items}


def _map(values: Json) -> Json:
    return {"type": "object", "additionalProperties": values}


def _nullable(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _defined(name: str) -> Json:
    return {"$ref": f"#/$defs/{name}"}


def trace_schema() -> Json:
    """The JSON schema (draft 2020-12) of the documents that `write_trace` writes."""
    facts = _array(_defined("reference"))
    costs = _defined("costs")
    body = {
        "query": _STRING,
        "known": facts,
        "outcome": _nullable({"anyOf": [_defined("verdict"), _defined("answer")]}),
        "final": facts,
        "borderline": facts,
        "passages": _array(_defined("ranked_passage")),
        "hops": _array(_defined("hop")),
        "stopped": _STRING,
        "ranked_by": {"enum": ["hops", "evidence"]},
        "untrained": _array(_STRING),
        "reading": costs,
        "totals": _defined("totals"),
        "parts": _array(_defined("part")),
    }
    document = {"format_version": {"const": FORMAT_VERSION}, **body, "facts": _array(_defined("fact"))}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Trace",
        **_object(document, additionalProperties=True),
        "$defs": {"part": _object(body), **_definitions(facts, costs)},
    }


def _definitions(facts: Json, costs: Json) -> Json:
    verdict = {"label": _STRING, "probability": _NUMBER, "probabilities": _map(_NUMBER)}
    answer = {"text": _STRING, "score": _NUMBER, "pid": _nullable(_STRING), "sid": _nullable(_INTEGER)}
    amounts = {"seconds": _NUMBER, "tokens": _INTEGER}
    place = {"score": _nullable(_NUMBER), "hop": _nullable(_INTEGER), "rank": _nullable(_INTEGER)}
    titled = {"pid": _STRING, "title": _nullable(_STRING)}
    scores = {"sentence_score": _nullable(_NUMBER), "fact_score": _nullable(_NUMBER)}
    hop = {
        "query": _STRING,
        "known": facts,
        "encoded_query": _STRING,
        "excluded": _array(_STRING),
        "passages": _array(_defined("passage")),
        "facts": facts,
        "borderline": facts,
        "reranked": _array(_defined("hit")),
        "retrieving": costs,
        "condensing": costs,
        "words": _INTEGER,
    }
    return {
        "fact": _object(
            {"id": _INTEGER, "pid": _STRING, "sid": _INTEGER, "title": _STRING, "text": _STRING, "hop": _INTEGER}
        ),
        "reference": _object({"fact": _INTEGER, "score": _NUMBER}, {"added": {"const": True}}),
        "verdict": _object({"kind": {"const": "verdict"}, **verdict}),
        "answer": _object({"kind": {"const": "answer"}, **answer}),
        "hit": _object({"pid": _STRING, "score": _NUMBER}),
        "passage": _object({**titled, "score": _NUMBER}, {"mentioned_by": _STRING}),
        "ranked_passage": _object({**titled, **place, "fact_score": _nullable(_NUMBER)}),
        "judgement": _object({"pid": _STRING, "sid": _INTEGER, **scores, "kept": _BOOLEAN, "reason": _STRING}),
        "costs": _object({"seconds": _map(_NUMBER), "tokens": _map(_INTEGER)}),
        "totals": _object({**amounts, "words": _INTEGER, "stages": _map(_object(amounts))}),
        "hop": _object(hop, {"judgements": _array(_defined("judgement"))}),
    }
