"""Int8 layers equal linear layers up to a bounded rounding error."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from baleen.models.device import Int8Linear, quantize_linears


def layer(n_in: int, n_out: int, *, bias: bool = True) -> nn.Linear:
    torch.manual_seed(n_in + n_out)
    return nn.Linear(n_in, n_out, bias=bias)


@pytest.mark.parametrize("shape", [(5, 64), (2, 3, 64), (1, 64), (64,), (700, 64)])
@pytest.mark.parametrize("bias", [True, False])
def test_outputs_are_those_of_the_layer_up_to_rounding(shape: tuple[int, ...], bias: bool) -> None:
    exact = layer(64, 96, bias=bias)
    inputs = torch.randn(shape)
    found = Int8Linear(exact)(inputs)
    expected = exact(inputs).detach()
    assert found.shape == expected.shape
    assert found.dtype == torch.float32
    # Half a step of each factor: |x| and |w| are at most 127 steps, and there are 64 products.
    weights = exact.weight.detach().abs().amax(dim=1)
    largest = inputs.abs().amax(dim=-1, keepdim=True)
    bound = 64 * largest * weights * (1 / 127 + 1 / (4 * 127**2))
    assert bool(((found - expected).abs() <= bound).all())
    assert float((found - expected).abs().mean()) < 0.01 * float(expected.std())


def test_whole_numbers_come_out_exactly() -> None:
    exact = layer(16, 8)
    with torch.no_grad():
        exact.weight.copy_(torch.randint(-127, 128, (8, 16)).float())
        exact.weight[:, 0] = 127
    inputs = torch.randint(-127, 128, (4, 16)).float()
    inputs[:, 3] = -127
    torch.testing.assert_close(Int8Linear(exact)(inputs), exact(inputs).detach(), rtol=1e-5, atol=1e-2)


def test_a_large_row_does_not_cost_its_neighbours_precision() -> None:
    quantized = Int8Linear(layer(32, 16))
    quiet, loud = torch.randn(1, 32), 1e4 * torch.randn(1, 32)
    torch.testing.assert_close(quantized(torch.cat([quiet, loud]))[:1], quantized(quiet), rtol=0, atol=0)


def test_rows_and_weights_of_zero_are_no_special_case() -> None:
    exact = layer(32, 4)
    with torch.no_grad():
        exact.weight[1] = 0
    found = Int8Linear(exact)(torch.zeros(3, 32))
    torch.testing.assert_close(found, exact.bias.detach().expand(3, 4))
    assert Int8Linear(exact)(torch.empty(0, 32)).shape == (0, 4)


def test_many_rows_in_threads_are_as_each_alone() -> None:
    quantized = Int8Linear(layer(256, 128))
    inputs = torch.randn(999, 256)
    together = quantized(inputs)
    apart = torch.cat([quantized(row) for row in inputs.split(100)])
    np.testing.assert_array_equal(together.numpy(), apart.numpy())


def test_inputs_stay_as_they_are() -> None:
    inputs = torch.randn(4, 64)
    before = inputs.clone()
    Int8Linear(layer(64, 64))(inputs)
    assert torch.equal(inputs, before)


def test_every_linear_layer_inside_is_replaced_and_nothing_else() -> None:
    model = nn.Sequential(layer(8, 8), nn.GELU(), nn.ModuleDict({"inner": layer(8, 4)}), nn.LayerNorm(4))
    assert quantize_linears(model) is model
    assert isinstance(model[0], Int8Linear)
    assert isinstance(model[2]["inner"], Int8Linear)
    assert not [module for module in model.modules() if isinstance(module, nn.Linear)]
    assert {name for name, _ in model.named_parameters()} == {"3.weight", "3.bias"}
