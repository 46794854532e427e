"""The sections about a model itself: what it is, how it is used, what it consists of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from baleen.card.provenance import short_path
from baleen.card.subject import Subject
from baleen.card.weights import Weights
from baleen.evaluation.tables import table
from baleen.model_folder import COMPONENTS

_TYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "I8": "int8"}
_SEARCH = """\
from baleen import Encoder, Index, Retriever
from baleen.corpus import read

encoder = Encoder.load("{name}")
retriever = Retriever(encoder, Index.build("mine.index", read("mine.jsonl"), encoder))
for hit in retriever.search("{text}", k=5):
    print(f"{{hit.score:.2f}}", retriever.passage(hit.pid).title)"""
_HOPS = """\
from baleen import Baleen

baleen = Baleen.load("{name}", index="mine.index")
trace = baleen.{verb}("{text}")
print(trace.outcome, [f"{{fact.title}} | {{fact.text}}" for fact in trace.facts])"""
_CLAIM, _QUESTION = "A claim whose evidence is spread over several passages.", "A question of several hops?"


def introduction(subject: Subject) -> str:
    """What it is, in a paragraph."""
    can = [COMPONENTS[name].partition(" (")[0] for name in subject.run.components]
    return (
        f"A model of [Baleen](https://arxiv.org/abs/2101.00436) for multi-hop retrieval: it {_listed(can)}. "
        + " ".join(_origins(subject))
    )


def _origins(subject: Subject) -> Iterator[str]:
    """A sentence for what was trained, and one for what was not."""
    run, starts = subject.run, [f"`{Path(name).name}`" for name in subject.run.backbones]
    if starts:
        yield f"It was trained by `baleen train` for up to {run.plan.get('hops')} hops, starting from {_listed(starts)}."
    if run.ready is not None:
        told = (
            "this card is not about its training"
            if subject.retriever_card is None
            else f"[its own card]({subject.retriever_card.place}) tells of its training"
        )
        ready = short_path(run.ready)
        whose = f"an earlier `{ready}`" if ready == subject.name else f"`{ready}`"
        yield f"Its retriever is that of {whose}, taken as it is: {told}."


def use(subject: Subject) -> str:
    """How to run it, in Python and in a shell."""
    name, components = subject.name, subject.run.components
    verb = "verify" if "verifier" in components else "ask" if "answerer" in components else "search"
    text = _CLAIM if verb == "verify" else _QUESTION
    code = (_SEARCH if verb == "search" else _HOPS).format(name=name, verb=verb, text=text)
    shell = f'baleen index mine.jsonl --model {name} --out mine.index\nbaleen {verb} "{text}" --model {name} --index mine.index'
    return f"```sh\n{shell}\n```\n\n```python\n{code}\n```"


def components(subject: Subject) -> str | None:
    """What lies in its folder; None without one."""
    if not subject.weights:
        return None
    parts = [table(["component", "what it does", "lies in", "parameters of its own"], _component_rows(subject))]
    rows = [
        [
            _place(each),
            each.shape,
            f"{each.parameters:,}",
            ", ".join(_TYPES.get(t, t) for t in each.types),
            f"{each.size:,}",
        ]
        for each in subject.weights
    ]
    total = sum(each.size for each in subject.weights)
    parts.append(table(["checkpoint", "backbone", "parameters", "type", "bytes"], rows))
    parts.append(f"{total:,} bytes in all.")
    parts += [
        f"{_place(each)} is written as its difference to `{Path(each.base).name}`, whose backbone it takes along."
        for each in subject.weights
        if each.base is not None
    ]
    parts += [_mean_of(each) for each in subject.weights if each.averaged]
    if subject.settings:
        chosen = [
            [f"`{part}.{key}`", f"`{json.dumps(value)}`"]
            for part, own in subject.settings.items()
            for key, value in own.items()
        ]
        parts.append(table(["setting that the model comes with", "value"], chosen))
    return "\n\n".join(parts)


def _component_rows(subject: Subject) -> list[list[str]]:
    return [
        [component, COMPONENTS[component], _place(each), f"{each.heads.get(component, each.parameters):,}"]
        for each in subject.weights
        for component in each.components
    ]


def _mean_of(weights: Weights) -> str:
    shares = [f"{share:.0%} of those of sha256 `{digest[:12]}`" for share, digest in weights.averaged]
    return (
        f"The weights of {_place(weights)} are a mean (`baleen average`): {_listed(shares)}. What this card says of their "
        "training is about one of these."
    )


def _place(weights: Weights) -> str:
    return "the folder itself" if weights.folder == "." else f"`{weights.folder}`"


def _listed(items: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
