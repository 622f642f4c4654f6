"""The K products theta_dk * phi_vk of one cell, eight at a time.

A visited cell or an allocated token needs the sum of these products, or their running sums. As a loop that is a
chain of additions, one after the other, and numba makes no vectors of it, because that would change the order of
the sum. Here the order is one of vectors from the start: lane l adds up the products k = l, l + 8, l + 16, ...
These few lines are in the compiler's own language, where a vector of eight is a type; it means the same bits on
every machine, whatever its registers. ``tests/inference/test_products.py`` holds them to plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import countveil.runtime.compiled  # noqa: F401  # isort: skip  (first: numba as it should be)
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

#: Products that are added up side by side.
LANES = 8
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
# The typing context, which numba puts first by itself, is not an argument of the caller's.
_intrinsic: Any = intrinsic


@_intrinsic
def sum_of_products(typing_context: Any, left: Any, i: Any, right: Any, j: Any) -> Any:
    """``sum_of_products(left, i, right, j)`` = sum_k left[i, k] * right[j, k], the lanes summed in pairs."""
    _check(left, right)

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        cell = _Cell(context, builder, signature, arguments)
        lanes = cell.add_whole_vectors()
        parts = [builder.extract_element(lanes, ir.Constant(ir.IntType(32), lane)) for lane in range(LANES)]
        while len(parts) > 1:
            parts = [builder.fadd(parts[p], parts[p + 1]) for p in range(0, len(parts), 2)]
        total = cgutils.alloca_once_value(builder, parts[0])
        with cell.rest() as product:
            builder.store(builder.fadd(builder.load(total), product.value), total)
        return builder.load(total)

    return types.float64(left, types.intp, right, types.intp), write


@_intrinsic
def running_sums(typing_context: Any, left: Any, i: Any, right: Any, j: Any, out: Any) -> Any:
    """``running_sums(left, i, right, j, out)``: out[k] = out[k - 8] + left[i, k] * right[j, k], out[k < 0] = 0.

    ``out`` has room for eight more than the whole vectors: its last eight are the sums of the lanes.
    """
    _check(left, right)

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        cell = _Cell(context, builder, signature, arguments)
        target = make_array(signature.args[4])(context, builder, arguments[4]).data
        lanes = cell.add_whole_vectors(lambda k, sums: cell.store(sums, target, k))
        cell.store(lanes, target, cell.whole)
        with cell.rest() as product:
            place = builder.gep(target, [product.k])
            builder.store(builder.fadd(builder.load(place), product.value), place)
        return context.get_dummy_value()

    return types.void(left, types.intp, right, types.intp, out), write


@_intrinsic
def sums_of_rows(typing_context: Any, weights: Any, i: Any, matrix: Any, out: Any) -> Any:
    """``sums_of_rows(weights, i, matrix, out)``: out[c] = sum_k weights[i, k] * matrix[k, c], k after k.

    The columns of ``matrix`` are whole vectors, eight and eight (pad it with zeros), and ``out`` is as long. It may
    have fewer rows than ``weights`` has columns: the weights beyond are left out.
    """
    _check(weights, matrix)

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right, target = (
            make_array(signature.args[place])(context, builder, arguments[place]) for place in (0, 2, 3)
        )
        n_rows, n_columns = cgutils.unpack_tuple(builder, right.shape)
        integer = n_rows.type
        n_weights = cgutils.unpack_tuple(builder, left.shape)[1]
        row = builder.gep(left.data, [builder.mul(arguments[1], n_weights)])
        zero, one = ir.Constant(integer, 0), ir.Constant(integer, 1)

        def vector_at(pointer: Any, place: Any) -> Any:
            return builder.bitcast(builder.gep(pointer, [place]), _VECTOR.as_pointer())

        sums = cgutils.alloca_once(builder, _VECTOR)
        eight = ir.Constant(integer, LANES)
        with cgutils.for_range_slice(builder, zero, n_columns, eight, intp=integer) as (c, _):
            builder.store(ir.Constant(_VECTOR, [0.0] * LANES), sums)
            with cgutils.for_range_slice(builder, zero, n_rows, one, intp=integer) as (k, _):
                weight = builder.load(builder.gep(row, [k]))
                alone = builder.insert_element(
                    ir.Constant(_VECTOR, ir.Undefined), weight, ir.Constant(ir.IntType(32), 0)
                )
                everywhere = builder.shuffle_vector(
                    alone,
                    ir.Constant(_VECTOR, ir.Undefined),
                    ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES),
                )
                place = builder.add(builder.mul(k, n_columns), c)
                values = builder.load(vector_at(right.data, place), align=8)
                builder.store(builder.fadd(builder.load(sums), builder.fmul(everywhere, values)), sums)
            builder.store(builder.load(sums), vector_at(target.data, c), align=8)
        return context.get_dummy_value()

    return types.void(weights, types.intp, matrix, out), write


def _check(left: Any, right: Any) -> None:
    for array in (left, right):
        if not (isinstance(array, types.Array) and array.ndim == 2 and array.layout == "C"):
            raise TypingError(f"expected a matrix in C order, got {array}")
        if array.dtype != types.float64:
            raise TypingError(f"expected float64, got {array.dtype}")


class _Product(NamedTuple):
    k: Any
    value: Any


class _Cell:
    """Rows i and j of the two matrices, and loops over their products."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self._builder = builder
        rows = []
        for matrix, row in ((0, 1), (2, 3)):
            array = make_array(signature.args[matrix])(context, builder, arguments[matrix])
            self._length = cgutils.unpack_tuple(builder, array.shape)[1]
            rows.append(builder.gep(array.data, [builder.mul(arguments[row], self._length)]))
        self._rows = rows
        self._integer = self._length.type
        self.whole = builder.and_(self._length, ir.Constant(self._integer, -LANES))

    def add_whole_vectors(self, also: Callable[[Any, Any], None] = lambda k, sums: None) -> Any:
        """The sums of the lanes over k < whole; ``also`` sees them as they grow."""
        builder = self._builder
        sums = cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, [0.0] * LANES))
        with self._loop(ir.Constant(self._integer, 0), self.whole, LANES) as (k, _):
            left, right = (builder.load(self._vector_at(row, k), align=8) for row in self._rows)
            grown = builder.fadd(builder.load(sums), builder.fmul(left, right))
            builder.store(grown, sums)
            also(k, grown)
        return builder.load(sums)

    @contextmanager
    def rest(self) -> Iterator[_Product]:
        """One by one, the products from ``whole`` on: fewer than eight."""
        builder = self._builder
        with self._loop(self.whole, self._length, 1) as (k, _):
            left, right = (builder.load(builder.gep(row, [k])) for row in self._rows)
            yield _Product(k, builder.fmul(left, right))

    def store(self, vector: Any, target: Any, k: Any) -> None:
        """Eight numbers to target[k:]."""
        self._builder.store(vector, self._vector_at(target, k), align=8)

    def _vector_at(self, pointer: Any, k: Any) -> Any:
        return self._builder.bitcast(self._builder.gep(pointer, [k]), _VECTOR.as_pointer())

    def _loop(self, start: Any, stop: Any, step: int) -> Any:
        return cgutils.for_range_slice(
            self._builder, start, stop, ir.Constant(self._integer, step), intp=self._integer
        )
