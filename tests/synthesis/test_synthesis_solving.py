"""The worst rank of a gold passage in a word search, against BM25 written out."""

from __future__ import annotations

import math
import random
import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from baleen.synthesis.solving import COMMON, K1, B, SingleHop

WORDS = st.sampled_from(["ash", "oak", "Elm,", "yew", "fir.", "bay", "sal", "Åre", "1984", "the"])
TEXTS = st.lists(st.lists(WORDS, max_size=8).map(" ".join), min_size=1, max_size=30)
GOLD = st.lists(st.integers(0, 29), min_size=1, max_size=3)
QUESTIONS = st.lists(st.tuples(st.lists(WORDS, max_size=6).map(" ".join), GOLD), min_size=1, max_size=3)


def words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


def scores(texts: list[str], query: str) -> list[float]:
    """BM25 without the words that more than one text in `COMMON` holds (or more than one of a few texts)."""
    bags = [words(text) for text in texts]
    mean = max(sum(map(len, bags)) / len(bags), 1.0)
    found = [0.0] * len(texts)
    for word in set(words(query)):
        holders = sum(word in bag for bag in bags)
        if not holders or holders * COMMON > max(len(texts), COMMON):
            continue
        rarity = math.log(1 + (len(texts) - holders + 0.5) / (holders + 0.5))
        for number, bag in enumerate(bags):
            count = bag.count(word)
            found[number] += rarity * count * (K1 + 1) / (count + K1 * (1 - B + B * len(bag) / mean))
    return found


def is_rank(rank: int, found: list[float], gold: list[int]) -> bool:
    """Whether the rank is the number of passages that score as high as the worst gold one, up to rounding."""
    least = min(found[number] for number in gold)
    return sum(score > least + 1e-4 for score in found) < rank <= sum(score >= least - 1e-4 for score in found)


@settings(max_examples=60, deadline=None)
@given(TEXTS, QUESTIONS)
def test_ranks_are_those_of_bm25(texts: list[str], asked: list[tuple[str, list[int]]]) -> None:
    queries, golds = [query for query, _ in asked], [[number % len(texts) for number in gold] for _, gold in asked]
    ranks = SingleHop(texts).hardest_ranks(queries, golds)
    for query, gold, rank in zip(queries, golds, ranks.tolist(), strict=True):
        assert is_rank(rank, scores(texts, query), gold)


def test_ranks_are_those_of_bm25_for_texts_of_many_lengths() -> None:
    rng = random.Random(0)
    texts = [" ".join(f"w{rng.randrange(600)}" for _ in range(rng.randrange(1, 40))) for _ in range(80)]
    golds = [rng.sample(range(80), 2) for _ in range(100)]
    queries = [" ".join(rng.choice(texts[number].split()) for number in gold * 3) for gold in golds]
    ranks = SingleHop(texts).hardest_ranks(queries, golds).tolist()
    assert all(
        is_rank(rank, scores(texts, query), gold) for query, gold, rank in zip(queries, golds, ranks, strict=True)
    )


def test_the_worst_rank_counts() -> None:
    search = SingleHop(["ash ash", "ash oak", *(f"tree{number}" for number in range(38))])
    assert search.hardest_ranks(["ash", "oak ash", "ash"], [[0], [1], [0, 1]]).tolist() == [1, 1, 2]


def test_a_passage_that_shares_no_word_comes_after_all_others() -> None:
    assert SingleHop(["ash", "oak", "elm"]).hardest_ranks(["ash", "nothing"], [[0, 2], [1]]).tolist() == [3, 3]


def test_ties_count_as_ranked_before() -> None:
    texts = ["ash", "ash", *(f"tree{number}" for number in range(38))]
    assert SingleHop(texts).hardest_ranks(["ash"], [[0]]).tolist() == [2]


def test_common_words_find_nothing() -> None:
    texts = ["the ash"] + ["the tree"] * 19
    assert SingleHop(texts).hardest_ranks(["the tree", "the ash"], [[1], [0]]).tolist() == [20, 1]


def test_empty_passages_and_no_questions_are_allowed() -> None:
    assert SingleHop(["", "", "ash"]).hardest_ranks(["ash"], [[2]]).tolist() == [1]
    assert SingleHop(["ash"]).hardest_ranks([], []).shape == (0,)
    assert SingleHop([]).hardest_ranks([], []).dtype == np.int64
