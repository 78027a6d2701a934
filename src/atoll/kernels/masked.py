"""A step of Adam for one vector of weights and their masks, as LLVM's own vector operations.

A plain loop over so many arrays stays one entry at a time: LLVM can't tell that no two of them
overlap. Here they may not, but for ``source`` and ``given``, or ``source`` and ``w``.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from atoll.kernels.vectors import fused, load, spread, store, vector_of


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

        def block(kind: Any, array: Any, place: Any) -> Any:
            found = context.make_array(kind)(context, builder, array)
            return builder.bitcast(builder.gep(found.data, [place]), vector.as_pointer())

        blocks = [
            block(kind, builder.extract_value(stacks, i), at)
            for i, kind in enumerate(kinds[2].types)
        ]
        source, given, w, mask, mean_w, square_w, mean_mask, square_mask, theta = blocks
        steps = [spread(builder, builder.extract_value(constants, i), vector) for i in range(7)]
        pull, shrink, threshold = (spread(builder, scalar, vector) for scalar in scalars)
        zero = ir.Constant(vector, [0.0] * vector.count)

        g = load(builder, block(kinds[0], grad, at_grad), 0)
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


def _adam(builder: Any, p: Any, g: Any, mean: Any, square: Any, constants: list[Any]) -> Any:
    """Where parameters go; their moments are stored. See ``atoll.kernels.adam._entry``."""
    new1, keep2, new2, size, root, eps, decay = constants
    g = fused(builder, decay, p, g)
    m = load(builder, mean, 0)
    m = fused(builder, new1, builder.fsub(g, m), m)
    v = builder.fmul(keep2, load(builder, square, 0))
    v = fused(builder, builder.fmul(new2, g), g, v)
    store(builder, m, mean, 0)
    store(builder, v, square, 0)
    below = builder.fadd(builder.fdiv(_call(builder, "sqrt", v), root), eps)
    return builder.fsub(p, builder.fdiv(builder.fmul(size, m), below))


def _call(builder: Any, name: str, vector: Any) -> Any:
    """One of LLVM's functions of a vector."""
    bits = 32 if isinstance(vector.type.element, ir.FloatType) else 64
    kind = ir.FunctionType(vector.type, [vector.type])
    name = f"llvm.{name}.v{vector.type.count}f{bits}"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [vector])
