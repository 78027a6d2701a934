"""Sums that stay in the processor's vector registers, written as LLVM's own vector operations.

What LLVM makes of a plain loop over a row keeps the row in memory: it is loaded and stored again at
every term of the sum. Here a block of a row, or of several rows, is held in registers until its
sum is complete, which takes half of the time. Every entry is still summed in the order of its
terms, with one rounding per term.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

# Bytes of a vector: one of the machine's, so that a block fits its registers.
WIDE = bool(llvm.get_host_cpu_features().get("avx512f"))
VECTOR_BYTES = 64 if WIDE else 32
# Vectors of a row that a sparse sum holds at a time.
ROW_VECTORS = 8
# So many vectors before they are used, numbers are asked of the memory. By itself the processor
# looks ahead in a few arrays at a time only, and Adam passes over up to nine.
AHEAD = 16
# Rows and vectors per row that a dense product holds at a time.
TILE_ROWS, TILE_VECTORS = (6, 4) if WIDE else (4, 2)
_INDEX = ir.IntType(64)


@intrinsic
def lanes_of(_, array):
    """How many of an array's numbers a vector has; known when a kernel is compiled."""
    count = VECTOR_BYTES // (array.dtype.bitwidth // 8)

    def generate(context, builder, signature, args):
        return ir.Constant(_INDEX, count)

    return types.int64(array), generate


def _sum_of_rows(vectors: int) -> Any:
    @intrinsic
    def gather(_, data, indices, first, last, rows, at, out, to):
        """``out[to : to + n] = sum_p data[p] rows[indices[p], at : at + n]``, all arrays flat but
        ``rows``, for p from ``first`` to ``last`` and n the numbers of so many vectors."""
        whole = types.int64
        signature = types.void(data, indices, whole, whole, rows, whole, out, whole)

        def generate(context, builder, signature, args):
            _, _, first, last, _, at, _, to = args
            data, indices, rows, out = (
                context.make_array(signature.args[i])(context, builder, args[i])
                for i in (0, 1, 4, 6)
            )
            width = builder.extract_value(rows.shape, 1)
            vector = vector_of(context, signature.args[0])
            zero = ir.Constant(vector, [0.0] * vector.count)

            def add(p: Any, sums: list[Any]) -> list[Any]:
                entry = spread(builder, builder.load(builder.gep(data.data, [p])), vector)
                row = builder.load(builder.gep(indices.data, [p]))
                row = builder.sext(row, _INDEX) if row.type.width < 64 else row
                start = builder.add(builder.mul(row, width), at)
                block = builder.bitcast(builder.gep(rows.data, [start]), vector.as_pointer())
                return [
                    fused(builder, entry, load(builder, block, i), sums[i]) for i in range(vectors)
                ]

            sums = _loop(builder, first, last, [zero] * vectors, add)
            block = builder.bitcast(builder.gep(out.data, [to]), vector.as_pointer())
            for i, value in enumerate(sums):
                store(builder, value, block, i)
            return context.get_dummy_value()

        return signature, generate

    return gather


def _tile(height: int, vectors: int, ahead: bool = False) -> Any:
    """With ``ahead`` the block of B behind this one is fetched meanwhile."""

    @intrinsic
    def tile(_, a, from_a, down, along, terms, b, from_b, wide_b, out, to, wide, more):
        """A block of ``A B``, of some rows and of as many numbers as so many vectors have.

        All arrays are flat: the entries of A begin at ``from_a``, ``down`` apart from row to row
        and ``along`` from term to term; rows of B and of the result are ``wide_b`` and ``wide``.
        With ``more`` these are further terms of sums that are in the result already.
        """
        whole = types.int64
        signature = types.void(
            a, whole, whole, whole, whole, b, whole, whole, out, whole, whole, types.boolean
        )

        def generate(context, builder, signature, args):
            _, from_a, down, along, terms, _, from_b, wide_b, _, to, wide, more = args
            a, b, out = (
                context.make_array(signature.args[i])(context, builder, args[i]) for i in (0, 5, 8)
            )
            vector = vector_of(context, signature.args[0])
            zero = ir.Constant(vector, [0.0] * vector.count)
            start = [
                builder.add(from_a, builder.mul(down, ir.Constant(_INDEX, i)))
                for i in range(height)
            ]

            def add(p: Any, sums: list[Any]) -> list[Any]:
                row = builder.add(from_b, builder.mul(p, wide_b))
                block = builder.bitcast(builder.gep(b.data, [row]), vector.as_pointer())
                b_p = [load(builder, block, j) for j in range(vectors)]
                for j in range(vectors if ahead else 0):
                    fetch(builder, block, vectors + j)
                term = builder.mul(p, along)
                made = []
                for i in range(height):
                    place = builder.gep(a.data, [builder.add(start[i], term)])
                    entry = spread(builder, builder.load(place), vector)
                    made += [
                        fused(builder, entry, b_p[j], sums[i * vectors + j]) for j in range(vectors)
                    ]
                return made

            rows = [
                builder.add(to, builder.mul(wide, ir.Constant(_INDEX, i))) for i in range(height)
            ]
            blocks = [
                builder.bitcast(builder.gep(out.data, [row]), vector.as_pointer()) for row in rows
            ]
            is_more = builder.trunc(more, ir.IntType(1))
            begun = [
                builder.select(is_more, load(builder, block, j), zero)
                for block in blocks
                for j in range(vectors)
            ]
            sums = _loop(builder, ir.Constant(_INDEX, 0), terms, begun, add)
            for i, block in enumerate(blocks):
                for j in range(vectors):
                    store(builder, sums[i * vectors + j], block, j)
            return context.get_dummy_value()

        return signature, generate

    return tile


def vector_of(context: Any, array: Any) -> ir.VectorType:
    """The vector of an array's numbers."""
    return ir.VectorType(
        context.get_data_type(array.dtype), VECTOR_BYTES // (array.dtype.bitwidth // 8)
    )


def spread(builder: Any, number: Any, vector: ir.VectorType) -> Any:
    """A vector of one number."""
    nothing = ir.Constant(vector, ir.Undefined)
    place = ir.IntType(32)
    first = builder.insert_element(nothing, number, ir.Constant(place, 0))
    everywhere = ir.Constant(ir.VectorType(place, vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, nothing, everywhere)


def fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """``a b + c`` with one rounding."""
    bits = 32 if isinstance(a.type.element, ir.FloatType) else 64
    kind = ir.FunctionType(a.type, [a.type] * 3)
    name = f"llvm.fma.v{a.type.count}f{bits}"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [a, b, c])


def load(builder: Any, block: Any, i: int) -> Any:
    found = builder.load(builder.gep(block, [ir.Constant(_INDEX, i)]))
    found.align = 4
    return found


def store(builder: Any, value: Any, block: Any, i: int) -> None:
    builder.store(value, builder.gep(block, [ir.Constant(_INDEX, i)])).align = 4


def fetch(builder: Any, block: Any, i: int = AHEAD) -> None:
    """Have vector i of a block brought from memory; behind the end of an array that is no error."""
    number = ir.IntType(32)
    place = builder.gep(block, [ir.Constant(_INDEX, i)])
    place = builder.bitcast(place, ir.IntType(8).as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    # To be read, to be kept near, data.
    builder.call(function, [place, *(ir.Constant(number, n) for n in (0, 3, 1))])


def _loop(
    builder: Any,
    first: Any,
    last: Any,
    values: list[Any],
    body: Callable[[Any, list[Any]], list[Any]],
) -> list[Any]:
    """What a body makes of some values, for every number from first to last."""
    before = builder.block
    head, inside, after = (builder.append_basic_block(name) for name in ("head", "body", "after"))
    builder.branch(head)
    builder.position_at_end(head)
    p = builder.phi(_INDEX)
    p.add_incoming(first, before)
    held = [builder.phi(value.type) for value in values]
    for phi, value in zip(held, values, strict=True):
        phi.add_incoming(value, before)
    builder.cbranch(builder.icmp_signed("<", p, last), inside, after)
    builder.position_at_end(inside)
    made = body(p, held)
    p.add_incoming(builder.add(p, ir.Constant(_INDEX, 1)), builder.block)
    for phi, value in zip(held, made, strict=True):
        phi.add_incoming(value, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return held


gather_many, gather_some, gather_one = (
    _sum_of_rows(ROW_VECTORS),
    _sum_of_rows(ROW_VECTORS // 2),
    _sum_of_rows(1),
)
tile_wide, tile_narrow = _tile(TILE_ROWS, TILE_VECTORS), _tile(TILE_ROWS, 1)
row_wide, row_narrow = _tile(1, TILE_VECTORS), _tile(1, 1)
first_tile, first_row = _tile(TILE_ROWS, TILE_VECTORS, True), _tile(1, TILE_VECTORS, True)
