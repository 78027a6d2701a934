"""A step of Adam for one vector, of weights or of weights and masks, as LLVM's vector operations.

A plain loop over so many arrays stays one entry at a time: LLVM can't tell that no two of them
overlap. Here they may not, but for ``source`` with ``given`` or with what is written.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from atoll.kernels.vectors import fetch, fused, load, spread, store, vector_of


@intrinsic
def vector_of_adam(_, grad, at_grad, stacks, at_source, at, constants):
    """One vector of :func:`atoll.kernels.adam.adam`, from place ``at`` on; arrays are flat.

    ``stacks`` are source, what is written, and the moments; source is read from ``at_source`` on.
    """
    whole = types.int64
    signature = types.void(grad, whole, stacks, whole, whole, constants)

    def generate(context, builder, signature, args):
        grad, at_grad, stacks, at_source, at, constants = args
        kinds = signature.args
        vector = vector_of(context, kinds[0])
        places = (at_source, at, at, at)
        source, out, mean, square = (
            _block(context, builder, kind, builder.extract_value(stacks, i), places[i])
            for i, kind in enumerate(kinds[2].types)
        )
        for block in (out, mean, square):
            fetch(builder, block)
        steps = [spread(builder, builder.extract_value(constants, i), vector) for i in range(6)]
        g = load(builder, _block(context, builder, kinds[0], grad, at_grad), 0)
        p = _adam(builder, load(builder, source, 0), g, mean, square, steps)
        store(builder, p, out, 0)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def vector_of_masked(_, grad, at_grad, stacks, kept, at, constants, pull, shrink, threshold):
    """One vector of :func:`atoll.kernels.masks.adam_of_masked`, from place ``at`` on; arrays are
    flat. ``stacks`` are source, given, w, mask, their moments, and theta."""
    whole = types.int64
    number = grad.dtype
    signature = types.void(grad, whole, stacks, kept, whole, constants, number, number, number)

    def generate(context, builder, signature, args):
        grad, at_grad, stacks, kept, at, constants, *scalars = args
        kinds = signature.args
        vector = vector_of(context, kinds[0])
        blocks = [
            _block(context, builder, kind, builder.extract_value(stacks, i), at)
            for i, kind in enumerate(kinds[2].types)
        ]
        for block in blocks:
            fetch(builder, block)
        source, given, w, mask, mean_w, square_w, mean_mask, square_mask, theta = blocks
        steps = [spread(builder, builder.extract_value(constants, i), vector) for i in range(6)]
        pull, shrink, threshold = (spread(builder, scalar, vector) for scalar in scalars)
        zero = ir.Constant(vector, [0.0] * vector.count)

        g = load(builder, _block(context, builder, kinds[0], grad, at_grad), 0)
        old, m = load(builder, source, 0), load(builder, mask, 0)
        apart = builder.fsub(builder.fmul(old, m), load(builder, given, 0))
        g = fused(builder, pull, apart, g)
        sign = builder.select(
            builder.fcmp_ordered(">", m, zero),
            shrink,
            builder.select(
                builder.fcmp_ordered("<", m, zero), builder.fneg(shrink), builder.fmul(m, zero)
            ),
        )
        of_w, of_mask = builder.fmul(g, m), fused(builder, g, old, sign)
        w_new = _adam(builder, old, of_w, mean_w, square_w, steps)
        m_new = _adam(builder, m, of_mask, mean_mask, square_mask, steps)
        above = builder.fcmp_ordered(">=", _call(builder, "fabs", m_new), threshold)
        counted = builder.select(above, m_new, builder.fmul(m_new, zero))
        for value, place in ((w_new, w), (m_new, mask), (builder.fmul(w_new, counted), theta)):
            store(builder, value, place, 0)
        bytes_of = ir.VectorType(ir.IntType(8), vector.count)
        flags = context.make_array(kinds[3])(context, builder, kept)
        flags = builder.bitcast(builder.gep(flags.data, [at]), bytes_of.as_pointer())
        builder.store(builder.zext(above, bytes_of), flags).align = 1
        return context.get_dummy_value()

    return signature, generate


def _block(context: Any, builder: Any, kind: Any, array: Any, place: Any) -> Any:
    """Where the vector that begins at a place of an array is."""
    found = context.make_array(kind)(context, builder, array)
    vector = vector_of(context, kind)
    return builder.bitcast(builder.gep(found.data, [place]), vector.as_pointer())


def _adam(builder: Any, p: Any, g: Any, mean: Any, square: Any, constants: list[Any]) -> Any:
    """Where parameters go; their moments are stored. See ``atoll.kernels.adam.moved``."""
    new1, keep2, new2, size, eps, decay = constants
    g = fused(builder, decay, p, g)
    m = load(builder, mean, 0)
    m = fused(builder, new1, builder.fsub(g, m), m)
    v = builder.fmul(keep2, load(builder, square, 0))
    v = fused(builder, builder.fmul(new2, g), g, v)
    store(builder, m, mean, 0)
    store(builder, v, square, 0)
    below = builder.fadd(_call(builder, "sqrt", v), eps)
    return builder.fsub(p, builder.fdiv(builder.fmul(size, m), below))


def _call(builder: Any, name: str, vector: Any) -> Any:
    """One of LLVM's functions of a vector."""
    bits = 32 if isinstance(vector.type.element, ir.FloatType) else 64
    kind = ir.FunctionType(vector.type, [vector.type])
    name = f"llvm.{name}.v{vector.type.count}f{bits}"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [vector])
