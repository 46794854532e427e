"""Made-up data whose questions need two to four hops, small enough to train retrievers with on a CPU in seconds.

Each passage is about one person, whom other passages mention too: a name alone does not lead to its passage, and a
question names only the first person of its chain.

    Balio       Balio lives in Karsk.  Balio taught Denure.  Balio hired Tavimo.  Balio sails.
    Denure      Denure hired Suvela.  Denure bakes.  Denure rescued Balio.  Denure met Kolure.

    Balio taught someone who does what?     gold: Balio's second sentence, Denure's second
"""

from __future__ import annotations

import json
import random
import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from baleen.core.types import Passage
from baleen.data import corpus
from fakes import BERT_TOKENS, bert_folder

RELATIONS = ("taught", "hired", "rescued", "painted", "praised", "married")
TRADES = ("bakes", "sails", "weaves", "digs", "judges", "farms", "sings", "rides")
PLACES = ("Karsk", "Ulmen", "Tovar", "Hesk", "Dorun", "Pelm")
QUESTION_WORDS = ("someone", "who", "does", "what")


@dataclass(frozen=True)
class Person:
    """The subject of a passage, with relations to two others."""

    pid: str
    name: str
    trade: str
    relations: dict[str, str]
    sentences: tuple[str, ...]

    def fact(self, words: str) -> tuple[str, int]:
        """The pid and sid of the sentence with these words."""
        return self.pid, next(sid for sid, sentence in enumerate(self.sentences) if words in sentence)


@dataclass(frozen=True)
class ToyData:
    """Data written to `folder`: corpus.jsonl, train.jsonl, dev.jsonl, and ordered.jsonl, which has the orders of hops.

    `order` has the true order of hops of every question, by id.
    """

    folder: Path
    passages: list[Passage]
    order: dict[str, tuple[str, ...]]

    def backbone(self, folder: Path, seed: int = 0) -> Path:
        """A random BERT of two layers, with a token for every word of this data.

        Position embeddings are small, so that it matches words before training, as a pretrained one does.
        """
        sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2, "max_position_embeddings": 128}
        still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        bert_folder(folder, seed, self._vocabulary(), **sizes, **still)
        weights = load_file(folder / "model.safetensors")
        for name in ("position", "token_type"):
            weights[f"embeddings.{name}_embeddings.weight"] *= 0.2
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        return folder

    def matching_backbone(self, folder: Path, seed: int = 0, layers: int = 2) -> Path:
        """A BERT with one attention head for equal words and one for neighbouring words.

        Cross-encoders compare words of two texts.  Pretrained backbones have heads for that; random ones do not learn them
        in a few hundred steps.  Words, token types and positions have separate dimensions.
        """
        hidden, own, near = 64, 32, 16  # of the hidden dimensions, those of words, and the last of them, of places
        sizes = {"hidden_size": hidden, "intermediate_size": 128, "num_attention_heads": 2, "num_hidden_layers": layers}
        still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        wide = {"max_position_embeddings": 128, "initializer_range": 0.12}
        bert_folder(folder, seed, self._vocabulary(), **sizes, **still, **wide)
        weights = load_file(folder / "model.safetensors")
        words, places, texts = (
            weights[f"embeddings.{name}_embeddings.weight"].zero_() for name in ("word", "position", "token_type")
        )
        words[:, :own] = torch.randn(len(words), own, generator=torch.Generator().manual_seed(seed))
        texts[:, own:-near] = torch.tensor([[1.0], [-1.0]])
        turns = torch.arange(len(places))[:, None] * 60 ** (-torch.arange(near // 2) / (near // 2))
        places[:, -near:] = torch.cat([turns.sin(), turns.cos()], dim=1)
        for name, weight in weights.items():
            if name.endswith(("self.query.weight", "self.key.weight")):
                weight.zero_()
                weight[:own, :own] = 2**0.5 * torch.eye(own)
                weight[own : own + near, -near:] = 3**0.5 * torch.eye(near)
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        return folder

    def _vocabulary(self) -> list[str]:
        texts = (f"{passage.title} {passage.text}".lower() for passage in self.passages)
        words = {word for text in texts for word in re.findall(r"[a-z]+", text)}.union(RELATIONS, QUESTION_WORDS)
        return [*BERT_TOKENS.values(), "[unused0]", "[unused1]", *string.punctuation, *sorted(words)]


def make_toy_data(
    folder: Path,
    *,
    people: int = 240,
    train: int = 360,
    dev: int = 60,
    seed: int = 0,
    hops: Sequence[int] = (2, 3, 4),
) -> ToyData:
    """Make the data of a seed, and write its files; questions have these numbers of `hops` in turn."""
    rng = random.Random(seed)
    known = _people(rng, people)
    passages = [Passage.from_sentences(each.pid, each.name, each.sentences) for each in known.values()]
    questions, order = _questions(rng, known, train + dev, hops)
    folder.mkdir(parents=True, exist_ok=True)
    corpus.write_passages(passages, folder / "corpus.jsonl")
    _write(folder / "train.jsonl", questions[:train])
    _write(folder / "dev.jsonl", questions[train:])
    _write(folder / "ordered.jsonl", ({**each, "order": order[each["id"]]} for each in questions[:train]))
    return ToyData(folder, passages, order)


def _people(rng: random.Random, count: int) -> dict[str, Person]:
    names: list[str] = []
    while len(names) < count:
        syllables = [rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(3)]
        name = "".join(syllables).capitalize()
        names += [name] if name not in names else []
    return {name: _person(rng, f"p{number}", name, names) for number, name in enumerate(names)}


def _person(rng: random.Random, pid: str, name: str, names: Sequence[str]) -> Person:
    """A person with two relations, a trade, and perhaps an irrelevant sentence."""
    *related, other = rng.sample([other for other in names if other != name], 3)
    relations = dict(zip(rng.sample(RELATIONS, 2), related, strict=True))
    trade = rng.choice(TRADES)
    asides = [(), (f"{name} met {other}.",), (f"{name} lives in {rng.choice(PLACES)}.",)]
    sentences = [f"{name} {relation} {whom}." for relation, whom in relations.items()]
    sentences += [f"{name} {trade}.", *rng.choice(asides)]
    rng.shuffle(sentences)
    return Person(pid, name, trade, relations, tuple(sentences))


def _questions(
    rng: random.Random, people: dict[str, Person], count: int, hops: Sequence[int]
) -> tuple[list[dict[str, Any]], dict[str, tuple[str, ...]]]:
    """Questions and claims in turn, with each number of hops in turn, and their true orders."""
    asked: dict[str, dict[str, Any]] = {}
    order: dict[str, tuple[str, ...]] = {}
    while len(asked) < count:
        chain, path = _chain(rng, people, hops[len(asked) % len(hops)])
        question = _question(rng, f"q{len(asked)}", chain, path, claims=len(asked) % 2 == 1)
        if len({person.pid for person in chain}) == len(chain) and question["text"] not in asked:
            asked[question["text"]] = question
            order[question["id"]] = tuple(person.pid for person in chain)
    return list(asked.values()), order


def _chain(rng: random.Random, people: dict[str, Person], hops: int) -> tuple[list[Person], list[str]]:
    """People, each related to the one before, and the relations."""
    chain, path = [rng.choice(list(people.values()))], []
    for _ in range(hops - 1):
        path.append(rng.choice(list(chain[-1].relations)))
        chain.append(people[chain[-1].relations[path[-1]]])
    return chain, path


def _question(
    rng: random.Random, qid: str, chain: Sequence[Person], path: Sequence[str], *, claims: bool
) -> dict[str, Any]:
    """A question or claim about the trade of the last person; gold passages are shuffled."""
    facts = [person.fact(f" {relation} ") for person, relation in zip(chain, path, strict=False)]
    facts.append(chain[-1].fact(f" {chain[-1].trade}."))
    facts = rng.sample(facts, len(facts))
    whom = chain[0].name + "".join(f" {relation} someone who" for relation in path)
    asked = {"id": qid, "gold": [pid for pid, _ in facts], "facts": facts, "hops": len(chain)}
    if not claims:
        return {**asked, "text": f"{whom} does what?", "answer": chain[-1].trade}
    trade = rng.choice([chain[-1].trade, rng.choice(TRADES)])
    return {**asked, "text": f"{whom} {trade}.", "label": "supported" if trade == chain[-1].trade else "refuted"}


def _write(file: Path, records: Iterable[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
