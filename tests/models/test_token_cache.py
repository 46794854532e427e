"""The token cache gives the tokenizer's own ids, for any number of texts and threads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from baleen.models.memory import TokenCache
from baleen.models.tokens import plain_tokenizer
from fakes import CORPUS, bert_folder


@contextmanager
def frequent_switches() -> Iterator[None]:
    """Switch between threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


TEXTS = [sentence for passage in CORPUS for sentence in (passage.title, *passage.sentences)]


class Counted:
    """A tokenizer that counts single calls and records the number of texts per batch."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer, self.single, self.batches = tokenizer, 0, list[int]()

    def encode(self, text: str, add_special_tokens: bool) -> object:
        self.single += 1
        return self.tokenizer.encode(text, add_special_tokens=add_special_tokens)

    def encode_batch_fast(self, texts: list[str], add_special_tokens: bool) -> object:
        self.batches.append(len(texts))
        return self.tokenizer.encode_batch_fast(texts, add_special_tokens=add_special_tokens)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Counted:
    return Counted(plain_tokenizer((bert_folder(tmp_path) / "tokenizer.json").read_text("utf-8")))


def expected(tokenizer: Counted, text: str) -> list[int]:
    return list(tokenizer.tokenizer.encode(text, add_special_tokens=False).ids)


def test_a_text_is_tokenised_once(tokenizer: Counted) -> None:
    cache = TokenCache(tokenizer, 100)
    for _ in range(3):
        assert cache.ids("The mayor of Vardal") == expected(tokenizer, "The mayor of Vardal")
    assert tokenizer.single == 1


def test_added_texts_are_tokenised_in_one_call(tokenizer: Counted) -> None:
    cache = TokenCache(tokenizer, 1000)
    cache.add([*TEXTS, *TEXTS])
    cache.add(TEXTS)
    cache.add([])
    assert (tokenizer.batches, tokenizer.single) == ([len(set(TEXTS))], 0)
    assert [cache.ids(text) for text in TEXTS] == [expected(tokenizer, text) for text in TEXTS]
    assert tokenizer.single == 0


def test_returned_lists_are_copies(tokenizer: Counted) -> None:
    cache = TokenCache(tokenizer, 10)
    cache.ids("Vardal").append(7)
    assert cache.ids("Vardal") == expected(tokenizer, "Vardal")


@pytest.mark.parametrize("size", [1, 3])
def test_the_oldest_entries_are_dropped_and_recomputed(tokenizer: Counted, size: int) -> None:
    cache = TokenCache(tokenizer, size)
    cache.add(TEXTS[:5])
    assert len(cache) == size
    cache.ids(TEXTS[4])
    assert tokenizer.single == 0
    assert [cache.ids(text) for text in TEXTS] == [expected(tokenizer, text) for text in TEXTS]
    assert len(cache) == size


def test_threads_share_a_cache(tokenizer: Counted) -> None:
    cache = TokenCache(tokenizer, 5)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(cache.ids, TEXTS * 20))
    assert found == [expected(tokenizer, text) for text in TEXTS] * 20
    assert len(cache) == 5


def test_one_thread_adds_while_another_reads(tokenizer: Counted) -> None:
    cache, wanted = TokenCache(tokenizer, 3), [expected(tokenizer, text) for text in TEXTS]

    def add() -> None:
        for start in range(300):
            cache.add(TEXTS[start % len(TEXTS) :])
            assert len(cache) <= 3

    with ThreadPoolExecutor(2) as pool, frequent_switches():
        adding = pool.submit(add)
        while not adding.done():
            assert [cache.ids(text) for text in TEXTS] == wanted
        adding.result()
