"""Vector instructions for the kernels: small loops written as LLVM vectors through numba's `@intrinsic`.

Plain numba loops over 64 lanes keep their accumulators in memory; these keep them in registers, which doubles the speed.
LLVM lowers the vectors to what the processor has (AVX-512, AVX2, NEON), so nothing here is tied to one of them.

A *lane* is one query vector.  A block has `LANES` = 64 of them.  All pointers are addresses as integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core import types as nb
from numba.extending import intrinsic

LANES = 64
HALF = LANES // 2

_I8, _I16, _I32, _I64 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)
_F32 = ir.FloatType()
_BYTES = ir.VectorType(_I8, LANES)
_WORDS = ir.VectorType(_I16, HALF)
_FLOATS = ir.VectorType(_F32, LANES)
_ROWS = 4  # passage vectors that `dot_rows` takes at once: 4 x 64 floats fill half of AVX-512's registers
_AHEAD = 2  # tokens before its own at which `best_tokens` asks for a token's centroid scores


def _pointer(builder: ir.IRBuilder, address: Any, kind: ir.Type) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _at(builder: ir.IRBuilder, address: Any, offset: Any, kind: ir.Type, align: int) -> Any:
    return builder.load(_pointer(builder, builder.add(address, offset), kind), align=align, typ=kind)


def _const(value: int) -> ir.Constant:
    return ir.Constant(_I64, value)


def _splat(kind: ir.VectorType, value: float) -> ir.Constant:
    return ir.Constant(kind, [value] * kind.count)


def _larger(builder: ir.IRBuilder, left: Any, right: Any) -> Any:
    return builder.select(builder.icmp_signed(">", left, right), left, right)


class _Cell:
    """A local variable; LLVM turns it into a register."""

    def __init__(self, builder: ir.IRBuilder, initial: Any) -> None:
        self.builder = builder
        self.kind = initial.type
        self.slot = cgutils.alloca_once(builder, initial.type)
        self.set(initial)

    def get(self) -> Any:
        return self.builder.load(self.slot, typ=self.kind)

    def set(self, value: Any) -> None:
        self.builder.store(value, self.slot)


def _keep_best(builder: ir.IRBuilder, best: tuple[_Cell, _Cell], halves: tuple[Any, Any]) -> None:
    for cell, half in zip(best, halves, strict=True):
        cell.set(_larger(builder, half, cell.get()))


def _score_row(builder: ir.IRBuilder, scores: Any, code: Any) -> tuple[Any, Any]:
    """The 64 int16 centroid scores of cell `code`, as two halves."""
    offset = builder.mul(builder.zext(code, _I64), _const(2 * LANES))
    first = _at(builder, scores, offset, _WORDS, 64)
    return first, _at(builder, scores, builder.add(offset, _const(LANES)), _WORDS, 64)


def _prefetch_row(builder: ir.IRBuilder, scores: Any, code: Any) -> None:
    """Ask for the centroid scores of cell `code`: they lie anywhere in megabytes, too far for the processor to foresee."""
    kind = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    row = builder.add(scores, builder.mul(builder.zext(code, _I64), _const(2 * LANES)))
    for line in range(2):
        place = _pointer(builder, builder.add(row, _const(line * LANES)), _I8)
        builder.call(prefetch, [place, _I32(0), _I32(3), _I32(1)])  # to read, keep in all caches, data


def _start_best(builder: ir.IRBuilder) -> tuple[_Cell, _Cell]:
    lowest = _splat(_WORDS, -(2**15))
    return _Cell(builder, lowest), _Cell(builder, lowest)


def _store_best(builder: ir.IRBuilder, best: tuple[_Cell, _Cell], out: Any) -> None:
    for half, cell in enumerate(best):
        target = _pointer(builder, builder.add(out, _const(half * LANES)), _WORDS)
        builder.store(cell.get(), target, align=2)


@intrinsic
def best_cells(typing_context: Any, scores: Any, codes: Any, tokens: Any, out: Any) -> tuple[Any, Callable[..., Any]]:
    """out[lane] = max over the tokens of scores[codes[token]][lane]; all int16, codes uint16."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        scores, codes, tokens, out = arguments
        best = _start_best(builder)
        with cgutils.for_range(builder, tokens) as loop:
            code = _at(builder, codes, builder.mul(loop.index, _const(2)), _I16, 2)
            _keep_best(builder, best, _score_row(builder, scores, code))
        _store_best(builder, best, out)
        return context.get_dummy_value()

    return nb.void(nb.uintp, nb.uintp, nb.int64, nb.uintp), codegen


@intrinsic
def best_tokens(
    typing_context: Any, scores: Any, table: Any, codes: Any, residuals: Any, tokens: Any, subspaces: Any, out: Any
) -> tuple[Any, Callable[..., Any]]:
    """out[lane] = max over the tokens of scores[codes[token]][lane] + sum over s of table[s][residuals[token][s]][lane].

    The table holds 7-bit entries, so two of them add up within a byte; a pair of bytes then goes into 16-bit sums without
    unpacking: one sum takes the word as it is, the other its high byte, and the low bytes fall out at the end.  Byte 2j
    of a table row belongs to lane j and byte 2j + 1 to lane 32 + j.  `subspaces` is even.
    """

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        scores, table, codes, residuals, tokens, subspaces, out = arguments
        best = _start_best(builder)
        pairs = builder.lshr(subspaces, _const(1))
        eight = _splat(_WORDS, 8)
        last = builder.sub(tokens, _const(1))
        with cgutils.for_range(builder, tokens) as token:
            ahead = builder.add(token.index, _const(_AHEAD))
            ahead = builder.select(builder.icmp_signed("<", ahead, last), ahead, last)
            _prefetch_row(builder, scores, _at(builder, codes, builder.mul(ahead, _const(2)), _I16, 2))
            words, highs = _Cell(builder, _splat(_WORDS, 0)), _Cell(builder, _splat(_WORDS, 0))
            words.set(_splat(_WORDS, 0))
            highs.set(_splat(_WORDS, 0))
            packed = builder.add(residuals, builder.mul(token.index, subspaces))
            with cgutils.for_range(builder, pairs) as pair:
                first = builder.mul(pair.index, _const(2))
                rows = []
                for step in range(2):
                    subspace = builder.add(first, _const(step))
                    code = builder.zext(_at(builder, packed, subspace, _I8, 1), _I64)
                    row = builder.add(builder.shl(subspace, _const(8)), code)
                    rows.append(_at(builder, table, builder.mul(row, _const(LANES)), _BYTES, 64))
                word = builder.bitcast(builder.add(*rows), _WORDS)
                words.set(builder.add(words.get(), word))
                highs.set(builder.add(highs.get(), builder.lshr(word, eight)))
            low = builder.sub(words.get(), builder.shl(highs.get(), eight))
            code = _at(builder, codes, builder.mul(token.index, _const(2)), _I16, 2)
            first_half, second_half = _score_row(builder, scores, code)
            _keep_best(builder, best, (builder.add(first_half, low), builder.add(second_half, highs.get())))
        _store_best(builder, best, out)
        return context.get_dummy_value()

    return nb.void(nb.uintp, nb.uintp, nb.uintp, nb.uintp, nb.int64, nb.int64, nb.uintp), codegen


@intrinsic
def count_at_least(typing_context: Any, values: Any, halves: Any, threshold: Any) -> tuple[Any, Callable[..., Any]]:
    """How many of the `halves` x 32 int16 values are >= threshold."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        values, halves, threshold = arguments
        count = _Cell(builder, _const(0))
        seed = builder.insert_element(ir.Constant(_WORDS, ir.Undefined), threshold, ir.Constant(_I32, 0))
        limit = builder.shuffle_vector(seed, seed, ir.Constant(ir.VectorType(_I32, HALF), [0] * HALF))
        with cgutils.for_range(builder, halves) as loop:
            lanes = _at(builder, values, builder.mul(loop.index, _const(LANES)), _WORDS, 2)
            bits = builder.bitcast(builder.icmp_signed(">=", lanes, limit), ir.IntType(HALF))
            count.set(builder.add(count.get(), builder.zext(builder.ctpop(bits), _I64)))
        return count.get()

    return nb.int64(nb.uintp, nb.int64, nb.int16), codegen


@intrinsic
def dot_rows(typing_context: Any, rows: Any, queries: Any, dim: Any, out: Any) -> tuple[Any, Callable[..., Any]]:
    """out[r][lane] = rows[r] . queries[:, lane] for 4 rows of `dim` floats; queries are (dim, 64), out (4, 64)."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        rows, queries, dim, out = arguments
        sums = [_Cell(builder, _splat(_FLOATS, 0.0)) for _ in range(_ROWS)]
        stride = builder.mul(dim, _const(4))
        zeros = ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES)
        with cgutils.for_range(builder, dim) as loop:
            lanes = _at(builder, queries, builder.mul(loop.index, _const(4 * LANES)), _FLOATS, 4)
            for row, total in enumerate(sums):
                offset = builder.add(builder.mul(stride, _const(row)), builder.mul(loop.index, _const(4)))
                scalar = _at(builder, rows, offset, _F32, 4)
                seed = builder.insert_element(ir.Constant(_FLOATS, ir.Undefined), scalar, ir.Constant(_I32, 0))
                spread = builder.shuffle_vector(seed, seed, zeros)
                product = builder.fmul(spread, lanes, flags=["contract"])
                total.set(builder.fadd(total.get(), product, flags=["contract"]))
        for row, total in enumerate(sums):
            builder.store(total.get(), _pointer(builder, builder.add(out, _const(4 * LANES * row)), _FLOATS), align=4)
        return context.get_dummy_value()

    return nb.void(nb.uintp, nb.uintp, nb.int64, nb.uintp), codegen
