from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from baleen.core.vectors import PassageVectors, QueryVectors
from baleen.models.device import best_device, best_dtype, cpu_has_bfloat16
from baleen.models.tokens import EncodedRows, restore_order, token_batches

UNHURRIED = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@UNHURRIED
@given(lengths=st.lists(st.integers(1, 30), max_size=40), budget=st.integers(1, 100))
def test_batches_hold_every_row_once_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = list(token_batches([[0] * length for length in lengths], budget))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        widest = max(lengths[i] for i in batch)
        assert len(batch) == 1 or len(batch) * widest <= budget


@UNHURRIED
@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=12), seed=st.integers(0, 99))
def test_rows_come_back_in_order(lengths: list[int], seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(lengths)).tolist()
    parts = []
    for rows in (order[: len(order) // 2], order[len(order) // 2 :]):
        if rows:
            values = [float(i) for i in rows for _ in range(lengths[i])]
            parts.append(EncodedRows(rows, torch.tensor(values).reshape(-1, 1), [lengths[i] for i in rows]))
    found = restore_order(parts)
    assert found.lengths.tolist() == lengths
    assert all((found[i] == i).all() and len(found[i]) == length for i, length in enumerate(lengths))


def test_ragged_vectors_are_views_by_passage() -> None:
    vectors = PassageVectors.of(
        [np.ones((2, 3), np.float16), np.empty((0, 3), np.float16), np.zeros((1, 3), np.float16)]
    )
    assert len(vectors) == 3
    assert vectors.dim == 3
    assert vectors.offsets.tolist() == [0, 2, 2, 3]
    assert [len(part) for part in vectors] == [2, 0, 1]
    assert np.shares_memory(vectors[-3], vectors.vectors)
    with pytest.raises(IndexError):
        vectors[3]


def test_a_query_may_have_no_facts() -> None:
    query = QueryVectors.without_facts(np.ones((2, 3), np.float32))
    assert query.facts.shape == (0, 3)
    assert query.dim == 3


def test_bfloat16_only_where_the_processor_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old").write_text("flags\t\t: fpu avx2 avx512f avx512vl\n")
    (tmp_path / "new").write_text("flags\t\t: fpu avx512f amx_bf16 amx_tile\n")
    assert not cpu_has_bfloat16(tmp_path / "old")
    assert not cpu_has_bfloat16(tmp_path / "missing")
    assert cpu_has_bfloat16(tmp_path / "new")
    for has, dtype in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr("baleen.models.device.cpu_has_bfloat16", lambda has=has: has)
        assert best_dtype(torch.device("cpu")) == dtype
    assert best_dtype(torch.device("meta")) == torch.float32
    assert best_device().type in ("cpu", "cuda")
