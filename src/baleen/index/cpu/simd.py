"""SIMD instructions for the kernels: small loops written as LLVM vectors through numba's `@intrinsic`.

Plain numba loops over 64 lanes keep their accumulators in memory.  These keep them in registers, which doubles the
speed.  LLVM lowers the vectors to what the processor has (AVX-512, AVX2, NEON).

A *lane* is one query vector; a block has `LANES` = 64 of them.  All pointers are addresses as integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
_FLOATS, _INTS = ir.VectorType(_F32, LANES), ir.VectorType(_I32, LANES)
_ROWS = 4  # rows that `dot_rows` takes at once: 4 x 64 floats fill half of AVX-512's registers


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


def _smaller(builder: ir.IRBuilder, left: Any, right: Any) -> Any:
    return builder.select(builder.icmp_signed("<", left, right), left, right)


def _mean(builder: ir.IRBuilder, left: Any, right: Any) -> Any:
    """(left + right) >> 1 of int16, rounded down, without overflow."""
    differing = builder.ashr(builder.xor(left, right), _splat(_WORDS, 1))
    return builder.add(builder.and_(left, right), differing)


class _Register:
    """A local variable; LLVM keeps it in a register."""

    def __init__(self, builder: ir.IRBuilder, initial: Any) -> None:
        self.builder = builder
        self.kind = initial.type
        self.slot = cgutils.alloca_once(builder, initial.type)
        self.set(initial)

    def get(self) -> Any:
        return self.builder.load(self.slot, typ=self.kind)

    def set(self, value: Any) -> None:
        self.builder.store(value, self.slot)


def _prefetch_row(builder: ir.IRBuilder, row: Any) -> None:
    """Prefetch 64 int16 scores of a cell: they lie anywhere in megabytes, too random for the hardware prefetcher."""
    kind = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    for line in range(2):
        address = _pointer(builder, builder.add(row, _const(line * LANES)), _I8)
        builder.call(prefetch, [address, _I32(0), _I32(3), _I32(1)])  # read, keep in all caches, data


@intrinsic
def best_bytes(typing_context: Any, scores: Any, codes: Any, tokens: Any, out: Any) -> tuple[Any, Callable[..., Any]]:
    """out[lane] = max over the tokens of scores[codes[token]][lane]; scores are uint8, codes uint16.

    64 bytes are one cache line and one register, half the memory traffic of int16 scores.
    """

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        scores, codes, tokens, out = arguments
        best = _Register(builder, _splat(_BYTES, 0))
        with cgutils.for_range(builder, tokens) as loop:
            code = _at(builder, codes, builder.mul(loop.index, _const(2)), _I16, 2)
            row = _at(builder, scores, builder.mul(builder.zext(code, _I64), _const(LANES)), _BYTES, 64)
            best.set(builder.select(builder.icmp_unsigned(">", row, best.get()), row, best.get()))
        builder.store(best.get(), _pointer(builder, out, _BYTES), align=1)
        return context.get_dummy_value()

    return nb.void(nb.uintp, nb.uintp, nb.int64, nb.uintp), codegen


@intrinsic
def add_token(
    typing_context: Any, table: Any, packed: Any, pairs: Any, first: Any, second: Any, added: Any, restored: Any,
    scores: Any, prefetched: Any, best: Any,
) -> tuple[Any, Callable[..., Any]]:  # fmt: skip
    """Score one token: add up its residual and update the best match of each lane.

        restored[lane] = ((first[lane] + second[lane]) >> 1) + added[lane] + the sum over i of table[i][packed[i]][lane]
        best[lane] = max(best[lane], restored[lane] + scores[lane])

    `packed` has 2 * `pairs` bytes; all else is int16.  `prefetched` are the scores of a later token.

    The table holds 7-bit entries, so two of them add up within a byte.  A pair of bytes goes into 16-bit sums without
    unpacking: one sum takes the word as it is, the other its high byte, and the difference gives the low bytes.  Byte
    2j of a table row belongs to lane j and byte 2j + 1 to lane 32 + j.
    """

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        table, packed, pairs, first, second, added, restored, scores, prefetched, best = arguments
        _prefetch_row(builder, prefetched)
        eight = _splat(_WORDS, 8)
        words, highs = _Register(builder, _splat(_WORDS, 0)), _Register(builder, _splat(_WORDS, 0))
        with cgutils.for_range(builder, pairs) as pair:
            even = builder.mul(pair.index, _const(2))
            rows = []
            for step in range(2):
                position = builder.add(even, _const(step))
                code = builder.zext(_at(builder, packed, position, _I8, 1), _I64)
                row = builder.add(builder.shl(position, _const(8)), code)
                rows.append(_at(builder, table, builder.mul(row, _const(LANES)), _BYTES, 64))
            word = builder.bitcast(builder.add(*rows), _WORDS)
            words.set(builder.add(words.get(), word))
            highs.set(builder.add(highs.get(), builder.lshr(word, eight)))
        sums = (builder.sub(words.get(), builder.shl(highs.get(), eight)), highs.get())
        for half, total in enumerate(sums):
            one_half = [
                _at(builder, row, _const(half * LANES), _WORDS, 2) for row in (first, second, added, scores, best)
            ]
            mean = _mean(builder, one_half[0], one_half[1])
            total = builder.add(total, builder.add(mean, one_half[2]))
            for row, value in (
                (restored, total),
                (best, _larger(builder, builder.add(total, one_half[3]), one_half[4])),
            ):
                builder.store(value, _pointer(builder, builder.add(row, _const(half * LANES)), _WORDS), align=2)
        return context.get_dummy_value()

    return nb.void(*[nb.uintp] * 2, nb.int64, *[nb.uintp] * 7), codegen


@intrinsic
def count_at_least(typing_context: Any, values: Any, halves: Any, threshold: Any) -> tuple[Any, Callable[..., Any]]:
    """Number of the `halves` x 32 int16 values that are >= threshold."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        values, halves, threshold = arguments
        count = _Register(builder, _const(0))
        seed = builder.insert_element(ir.Constant(_WORDS, ir.Undefined), threshold, ir.Constant(_I32, 0))
        limit = builder.shuffle_vector(seed, seed, ir.Constant(ir.VectorType(_I32, HALF), [0] * HALF))
        with cgutils.for_range(builder, halves) as loop:
            lanes = _at(builder, values, builder.mul(loop.index, _const(LANES)), _WORDS, 2)
            bits = builder.bitcast(builder.icmp_signed(">=", lanes, limit), ir.IntType(HALF))
            count.set(builder.add(count.get(), builder.zext(builder.ctpop(bits), _I64)))
        return count.get()

    return nb.int64(nb.uintp, nb.int64, nb.int16), codegen


@intrinsic
def count_bytes_at_least(
    typing_context: Any, values: Any, blocks: Any, threshold: Any
) -> tuple[Any, Callable[..., Any]]:
    """Number of the `blocks` x 64 uint8 values that are >= threshold."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        values, blocks, threshold = arguments
        count = _Register(builder, _const(0))
        limit = _broadcast(builder, threshold, _BYTES)
        with cgutils.for_range(builder, blocks) as loop:
            lanes = _at(builder, values, builder.mul(loop.index, _const(LANES)), _BYTES, 1)
            bits = builder.bitcast(builder.icmp_unsigned(">=", lanes, limit), _I64)
            count.set(builder.add(count.get(), builder.ctpop(bits)))
        return count.get()

    return nb.int64(nb.uintp, nb.int64, nb.uint8), codegen


@intrinsic
def dot_rows(typing_context: Any, rows: Any, queries: Any, dim: Any, out: Any) -> tuple[Any, Callable[..., Any]]:
    """out[r][lane] = rows[r] . queries[:, lane] for 4 rows of `dim` floats; queries are (dim, 64), out (4, 64)."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        rows, queries, dim, out = arguments
        stride = builder.mul(dim, _const(4))
        addresses = [builder.add(rows, builder.mul(stride, _const(row))) for row in range(_ROWS)]
        for row, total in enumerate(_products(builder, addresses, queries, dim)):
            builder.store(total, _pointer(builder, builder.add(out, _const(4 * LANES * row)), _FLOATS), align=4)
        return context.get_dummy_value()

    return nb.void(nb.uintp, nb.uintp, nb.int64, nb.uintp), codegen


@intrinsic
def closest_lanes(
    typing_context: Any, rows: Any, members: Any, halves: Any, blocks: Any, dim: Any, best: Any, positions: Any
) -> tuple[Any, Callable[..., Any]]:
    """The closest member to each of 4 rows: best[r] = max of row . member - half, positions[r] = its position.

    `rows` are 4 addresses of `dim` floats, `members` (blocks, dim, 64), `halves` (blocks, 64).  Positions count lanes
    from the first block.  Of equal members the lowest lane wins, and in it the first block.
    """

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        rows, members, halves, blocks, dim, best, positions = arguments
        addresses = [_at(builder, rows, _const(8 * row), _I64, 8) for row in range(_ROWS)]
        values = [_Register(builder, _splat(_FLOATS, float("-inf"))) for _ in range(_ROWS)]
        numbers = [_Register(builder, _splat(_INTS, 0)) for _ in range(_ROWS)]
        with cgutils.for_range(builder, blocks) as loop:
            block = builder.add(members, builder.mul(loop.index, builder.mul(dim, _const(4 * LANES))))
            half = _at(builder, halves, builder.mul(loop.index, _const(4 * LANES)), _FLOATS, 4)
            for row, product in enumerate(_products(builder, addresses, block, dim)):
                _keep_larger(builder, values[row], numbers[row], builder.fsub(product, half), loop.index)
        for row in range(_ROWS):
            top, position = _largest_lane(builder, values[row], numbers[row])
            builder.store(top, _pointer(builder, builder.add(best, _const(4 * row)), _F32))
            builder.store(position, _pointer(builder, builder.add(positions, _const(8 * row)), _I64))
        return context.get_dummy_value()

    return nb.void(nb.uintp, nb.uintp, nb.uintp, nb.int64, nb.int64, nb.uintp, nb.uintp), codegen


@intrinsic
def nearest_codewords(
    typing_context: Any, rows: Any, columns: Any, norms: Any, width: Any, out: Any
) -> tuple[Any, Callable[..., Any]]:
    """out (4,) int32 = 256 r + code of the four smallest distances between 4 rows of `width` floats and 256 codewords.

    `columns` is (width, 256), `norms` (256,) their squared norms.  The position replaces the low 10 bits of each
    squared distance, so that one branchless minimum finds both.  Of the codewords of a row that lie 64 apart only the
    nearest is considered: nothing goes through memory, and a result is rarely missed.
    """
    return nb.void(nb.uintp, nb.uintp, nb.uintp, nb.int64, nb.uintp), _nearest_codewords(_ROWS)


@intrinsic
def first_nearest_codewords(
    typing_context: Any, rows: Any, columns: Any, norms: Any, width: Any, out: Any
) -> tuple[Any, Callable[..., Any]]:
    """`nearest_codewords` of one row; exact."""
    return nb.void(nb.uintp, nb.uintp, nb.uintp, nb.int64, nb.uintp), _nearest_codewords(1)


def _nearest_codewords(count: int) -> Callable[..., Any]:
    """Code generator for `count` rows, 4 or 1."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        rows, columns, norms, width, out = arguments
        addresses = [builder.add(rows, builder.mul(width, _const(4 * row))) for row in range(count)]
        squares = [_broadcast(builder, _squared_norm(builder, address, width), _FLOATS) for address in addresses]
        none = _splat(_INTS, 2**31 - 1)
        best = [none] * 4
        for number, first in enumerate(range(0, 256, LANES)):
            norm = _at(builder, norms, _const(4 * first), _FLOATS, 4)
            sums = [_Register(builder, builder.fadd(norm, square)) for square in squares]
            with cgutils.for_range(builder, width) as loop:
                offset = builder.mul(loop.index, _const(4))
                column = _at(
                    builder, columns, builder.add(builder.mul(offset, _const(256)), _const(4 * first)), _FLOATS, 4
                )
                for row, total in zip(addresses, sums, strict=True):
                    scalar = builder.fmul(_at(builder, row, offset, _F32, 4), ir.Constant(_F32, -2.0))
                    product = builder.fmul(_broadcast(builder, scalar, _FLOATS), column, flags=["contract"])
                    total.set(builder.fadd(total.get(), product, flags=["contract"]))
            for row, total in enumerate(sums):
                positive = builder.fcmp_ordered(">", total.get(), _splat(_FLOATS, 0.0))  # rounding may make it negative
                distance = builder.select(positive, total.get(), _splat(_FLOATS, 0.0))
                positions = ir.Constant(_INTS, list(range(256 * row + first, 256 * row + first + LANES)))
                key = builder.or_(builder.and_(builder.bitcast(distance, _INTS), _splat(_INTS, -1024)), positions)
                slot = number if count == 1 else row
                best[slot] = _smaller(builder, key, best[slot])
        kind = ir.FunctionType(_I32, [_INTS])
        reduce = cgutils.get_or_insert_function(builder.module, kind, "llvm.vector.reduce.smin.v64i32")
        for number in range(4):
            pairs = [_smaller(builder, *best[:2]), _smaller(builder, *best[2:])]
            key = builder.call(reduce, [_smaller(builder, *pairs)])
            position = builder.and_(key, ir.Constant(_I32, 1023))
            builder.store(position, _pointer(builder, builder.add(out, _const(4 * number)), _I32), align=4)
            winner = _broadcast(builder, key, _INTS)
            best = [builder.select(builder.icmp_signed("==", part, winner), none, part) for part in best]
        return context.get_dummy_value()

    return codegen


def _squared_norm(builder: ir.IRBuilder, row: Any, width: Any) -> Any:
    """Squared norm of a row of `width` floats."""
    total = _Register(builder, ir.Constant(_F32, 0.0))
    with cgutils.for_range(builder, width) as loop:
        value = _at(builder, row, builder.mul(loop.index, _const(4)), _F32, 4)
        total.set(builder.fadd(total.get(), builder.fmul(value, value)))
    return total.get()


def _keep_larger(builder: ir.IRBuilder, best: _Register, numbers: _Register, values: Any, number: Any) -> None:
    """In each lane: if the value exceeds the best so far, keep it, with `number`."""
    larger = builder.fcmp_ordered(">", values, best.get())
    best.set(builder.select(larger, values, best.get()))
    numbers.set(builder.select(larger, _broadcast(builder, builder.trunc(number, _I32), _INTS), numbers.get()))


def _largest_lane(builder: ir.IRBuilder, best: _Register, numbers: _Register) -> tuple[Any, Any]:
    """The largest of 64 floats, and 64 times its number plus the first lane that has it (i64)."""
    kind = ir.FunctionType(_F32, [_FLOATS])
    reduce = cgutils.get_or_insert_function(builder.module, kind, "llvm.vector.reduce.fmax.v64f32")
    top = builder.call(reduce, [best.get()], fastmath=("nnan",))
    where = builder.bitcast(builder.fcmp_ordered("==", best.get(), _broadcast(builder, top, _FLOATS)), _I64)
    lane = builder.cttz(where, ir.Constant(ir.IntType(1), 1))
    number = builder.zext(builder.extract_element(numbers.get(), lane), _I64)
    return top, builder.add(builder.mul(number, _const(LANES)), lane)


def _products(builder: ir.IRBuilder, rows: Sequence[Any], lanes: Any, dim: Any) -> list[Any]:
    """row . lanes[:, lane] for the rows at some addresses; `lanes` is (dim, 64)."""
    sums = [_Register(builder, _splat(_FLOATS, 0.0)) for _ in rows]
    with cgutils.for_range(builder, dim) as loop:
        offset = builder.mul(loop.index, _const(4))
        column = _at(builder, lanes, builder.mul(loop.index, _const(4 * LANES)), _FLOATS, 4)
        for row, total in zip(rows, sums, strict=True):
            product = builder.fmul(
                _broadcast(builder, _at(builder, row, offset, _F32, 4), _FLOATS), column, flags=["contract"]
            )
            total.set(builder.fadd(total.get(), product, flags=["contract"]))
    return [total.get() for total in sums]


def _broadcast(builder: ir.IRBuilder, scalar: Any, kind: ir.VectorType) -> Any:
    """The scalar in every lane."""
    seed = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(_I32, 0))
    return builder.shuffle_vector(seed, seed, ir.Constant(_INTS, [0] * LANES))
