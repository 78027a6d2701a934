"""A matrix turned over: a square of as many rows as a vector has numbers at a time."""

from __future__ import annotations

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from atoll.kernels.vectors import lanes_of, load, store, vector_of


@intrinsic
def _square(_, source, at, wide, out, to, wide_out):
    """One square, whose row i begins at ``at + i wide``; that of the result at ``to + i wide_out``.

    Blocks beside the diagonal change places: of half the square, of a quarter, down to numbers.
    """
    whole = types.int64
    signature = types.void(source, whole, whole, out, whole, whole)

    def generate(context, builder, signature, args):
        source, at, wide, out, to, wide_out = args
        vector = vector_of(context, signature.args[0])
        lanes = vector.count

        def blocks(kind, array, first, apart):
            data = context.make_array(kind)(context, builder, array).data
            for i in range(lanes):
                place = builder.add(first, builder.mul(apart, ir.Constant(first.type, i)))
                yield builder.bitcast(builder.gep(data, [place]), vector.as_pointer())

        def mixed(a, b, chosen):
            index = ir.VectorType(ir.IntType(32), lanes)
            return builder.shuffle_vector(a, b, ir.Constant(index, chosen))

        rows = [load(builder, block, 0) for block in blocks(signature.args[0], source, at, wide)]
        apart = 1
        while apart < lanes:
            for i in [i for i in range(lanes) if not i & apart]:
                a, b, places = rows[i], rows[i + apart], range(lanes)
                upper = [lanes + p - apart if p & apart else p for p in places]
                lower = [lanes + p if p & apart else p + apart for p in places]
                rows[i], rows[i + apart] = mixed(a, b, upper), mixed(a, b, lower)
            apart *= 2
        places = blocks(signature.args[3], out, to, wide_out)
        for row, block in zip(rows, places, strict=True):
            store(builder, row, block, 0)
        return context.get_dummy_value()

    return signature, generate


@numba.njit(nogil=True, cache=True)
def turned(source, at, rows, columns, out):
    """``out [columns, rows]`` of the matrix ``[rows, columns]`` that begins at ``at``; both are
    flat."""
    lanes = lanes_of(source)
    whole, wide = rows - rows % lanes, columns - columns % lanes
    for i in range(0, whole, lanes):
        for j in range(0, wide, lanes):
            _square(source, at + i * columns + j, columns, out, j * rows + i, rows)
    for i in range(rows):
        for j in range(wide if i < whole else 0, columns):
            out[j * rows + i] = source[at + i * columns + j]
