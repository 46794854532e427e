"""The passage cache gives the tokens of every sentence with its marker, for any number of passages and threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from baleen.core.types import Passage
from baleen.models.memory import PassageCache, TokenisedPassage
from baleen.models.tokens import plain_tokenizer
from fakes import CORPUS
from hop_fakes import TOKENIZER

MARKER = 9999
GAPS = Passage.from_sentences("gaps", "", ["", "One.", " ", "Two and three.", "\u200b"])
PASSAGES = [*CORPUS, GAPS, Passage("none", "Empty", "")]


class Counted:
    """A tokenizer that records the number of texts per call."""

    def __init__(self) -> None:
        self.tokenizer, self.batches = plain_tokenizer(TOKENIZER), list[int]()

    def encode_batch_fast(self, texts: list[str], add_special_tokens: bool) -> Any:
        self.batches.append(len(texts))
        return self.tokenizer.encode_batch_fast(texts, add_special_tokens=add_special_tokens)


def tokens(text: str) -> list[int]:
    return list(plain_tokenizer(TOKENIZER).encode(text, add_special_tokens=False).ids)


def cache_of(size: int = 100) -> tuple[PassageCache, Counted]:
    counted = Counted()
    return PassageCache(counted, MARKER, size), counted


def check(found: TokenisedPassage, passage: Passage) -> None:
    written = [(sid, tokens(text)) for sid, text in enumerate(passage.sentences) if text.strip()]
    assert found.title.tolist() == tokens(passage.title)
    assert found.ids.tolist() == [number for _, ids in written for number in (MARKER, *ids)]
    assert found.sentences() == written
    assert [found.ids[place] for place in found.places] == [MARKER] * len(written)


@pytest.mark.parametrize("added", [True, False])
def test_a_marker_precedes_every_sentence(added: bool) -> None:
    cache, counted = cache_of()
    if added:
        cache.add([*PASSAGES, *PASSAGES])
        cache.add(iter(PASSAGES))
        cache.add([])
    for passage in PASSAGES * 2:
        check(cache.get(passage), passage)
    assert len(counted.batches) == (1 if added else len(PASSAGES))
    assert len(cache) == len(PASSAGES)


def test_passages_of_one_id_differ_by_title_text_and_spans() -> None:
    cache, _ = cache_of()
    text = "One. Two."
    same = [Passage("p", "t", text, spans) for spans in (((0, 4), (5, 9)), ((0, 9),), ())]
    for passage in [*same, Passage("p", "u", text, same[0].spans)]:
        check(cache.get(passage), passage)
    assert len(cache) == 4


@pytest.mark.parametrize("size", [1, 3])
def test_the_oldest_entries_are_dropped_and_recomputed(size: int) -> None:
    cache, _ = cache_of(size)
    cache.add(PASSAGES)
    assert len(cache) == size
    for passage in PASSAGES:
        check(cache.get(passage), passage)
    assert len(cache) == size


def test_threads_share_a_cache() -> None:
    cache, _ = cache_of(2)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(cache.get, PASSAGES * 20))
    for passage, each in zip(PASSAGES * 20, found, strict=True):
        check(each, passage)


def test_fits_counts_title_and_markers() -> None:
    cache, _ = cache_of()
    found = cache.get(Passage.from_sentences("p", "a", ["b c", "d"]))
    assert (len(found.title), len(found.ids)) == (1, 5)
    assert [room for room in range(12) if found.fits(room)] == [6, 7, 8, 9, 10, 11]
    titled = cache.get(Passage.from_sentences("p", "a b", ["c"]))
    assert [room for room in range(12) if titled.fits(room)] == [8, 9, 10, 11], "a quarter is for the title"
    assert not cache.get(Passage.from_sentences("p", "a", [" "])).fits(100)


def test_one_thread_adds_while_another_reads() -> None:
    cache, _ = cache_of(2)

    def add() -> None:
        for start in range(200):
            cache.add(PASSAGES[start % len(PASSAGES) :])
            assert len(cache) <= 2

    with ThreadPoolExecutor(2) as pool:
        adding = pool.submit(add)
        while not adding.done():
            for passage in PASSAGES:
                check(cache.get(passage), passage)
        adding.result()
