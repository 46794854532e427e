"""Tokens that are remembered are those that the tokenizer gives, however many texts there were and whoever asks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from baleen.models.memory import TokenCache
from baleen.models.tokens import plain_tokenizer
from fakes import CORPUS, bert_folder

TEXTS = [sentence for passage in CORPUS for sentence in (passage.title, *passage.sentences)]


class Counted:
    """A tokenizer that counts how often it is asked, and for how many texts at once."""

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
    memory = TokenCache(tokenizer, 100)
    for _ in range(3):
        assert memory.ids("The mayor of Vardal") == expected(tokenizer, "The mayor of Vardal")
    assert tokenizer.single == 1


def test_what_is_learnt_together_needs_no_call_of_its_own(tokenizer: Counted) -> None:
    memory = TokenCache(tokenizer, 1000)
    memory.learn([*TEXTS, *TEXTS])
    memory.learn(TEXTS)
    memory.learn([])
    assert (tokenizer.batches, tokenizer.single) == ([len(set(TEXTS))], 0)
    assert [memory.ids(text) for text in TEXTS] == [expected(tokenizer, text) for text in TEXTS]
    assert tokenizer.single == 0


def test_a_list_that_was_given_out_is_not_the_one_that_is_kept(tokenizer: Counted) -> None:
    memory = TokenCache(tokenizer, 10)
    memory.ids("Vardal").append(7)
    assert memory.ids("Vardal") == expected(tokenizer, "Vardal")


@pytest.mark.parametrize("size", [1, 3])
def test_the_oldest_go_first_and_come_again_right(tokenizer: Counted, size: int) -> None:
    memory = TokenCache(tokenizer, size)
    memory.learn(TEXTS[:5])
    assert len(memory) == size
    memory.ids(TEXTS[4])
    assert tokenizer.single == 0
    assert [memory.ids(text) for text in TEXTS] == [expected(tokenizer, text) for text in TEXTS]
    assert len(memory) == size


def test_threads_may_share_it(tokenizer: Counted) -> None:
    memory = TokenCache(tokenizer, 5)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(memory.ids, TEXTS * 20))
    assert found == [expected(tokenizer, text) for text in TEXTS] * 20
    assert len(memory) == 5
