"""Programs that write windows of one accumulator, in a few words.

    p = windowed((32, 64), [Window(0, 0, 32, 32), Window(0, 32, 32, 32)])

creates an accumulator [32, 64], writes the product of its own factors into each window, two steps of K, and
stores the whole accumulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pypto_ir.stmt import Program
from tests.helpers import Dim, Json, incore, let, load, out, ret, store, tensor

K = 16


@dataclass(frozen=True, slots=True)
class Window:
    """Rows and columns of a window at (row, column); `valid` rows of its left factor, all unless given."""

    row: Dim
    column: Dim
    rows: int
    columns: int
    valid: Dim | None = None


def factors(i: int, w: Window, step: int, dtype: str) -> list[Json]:
    """Loads of both factors of step `step` of window i: `a{i}_{step}` and `b{i}_{step}`."""
    at = step * K
    return [
        load(f"a{i}_{step}", f"x{i}", [0, at], [w.rows, K], [w.rows if w.valid is None else w.valid, K], memory="Mat"),
        load(f"b{i}_{step}", f"y{i}", [at, 0], [K, w.columns], memory="Mat"),
    ]


def parameters(windows: Sequence[Window], dtype: str, scalars: Sequence[Json] = ()) -> list[Json]:
    params: list[Json] = []
    for i, w in enumerate(windows):
        params += [tensor(f"x{i}", w.rows, 2 * K, dtype=dtype), tensor(f"y{i}", 2 * K, w.columns, dtype=dtype)]
    return [*params, *scalars]


def written(windows: Sequence[Window], dtype: str, acc: str = "acc", put_back: bool = True) -> list[Json]:
    """Two steps of K into every window of `acc`, the first with init_cond true; the last name is `acc_N_1`."""
    body: list[Json] = []
    for step in range(2):
        for i, w in enumerate(windows):
            name = f"acc_{i}_{step}"
            body += [
                *factors(i, w, step, dtype),
                let(f"w{i}_{step}", "tile.slice", acc, [w.rows, w.columns], [w.row, w.column]),
                let(
                    f"p{i}_{step}", "tile.matmul_acc", f"w{i}_{step}", f"a{i}_{step}", f"b{i}_{step}", {"const": step == 0, "dtype": "BOOL"}
                ),
                let(name, "tile.assemble", acc, f"p{i}_{step}", [w.row, w.column]),
            ]
            acc = name
    return body


def created(shape: tuple[int, int], dtype: str, name: str = "acc", stated: bool = True) -> Json:
    """An accumulator for products of `dtype`; its space is left to the compiler where it is not `stated`."""
    space = {"target_memory": "Acc"} if stated else {}
    return let(name, "tile.create", list(shape), dtype="FP32" if dtype != "INT8" else "INT32", **space)


def windowed(
    shape: tuple[int, int],
    windows: Sequence[Window],
    dtype: str = "FP16",
    scalars: Sequence[Json] = (),
    stated: bool = True,
    **more: Any,
) -> Program:
    """Products in windows of one accumulator that is stored as a whole."""
    held = "FP32" if dtype != "INT8" else "INT32"
    last = f"acc_{len(windows) - 1}_1"
    body = [created(shape, dtype, stated=stated), *written(windows, dtype), store("o", last, [0, 0], "out"), ret("o")]
    return incore([*parameters(windows, dtype, scalars), out("out", *shape, dtype=held)], body, **more)


def drained(shape: tuple[int, int], windows: Sequence[Window], **more: Any) -> Program:
    """Products in windows of one accumulator, each window stored on its own."""
    last = f"acc_{len(windows) - 1}_1"
    body = [created(shape, "FP16"), *written(windows, "FP16")]
    target = "out"
    for i, w in enumerate(windows):
        body += [
            let(f"d{i}", "tile.slice", last, [w.rows, w.columns], [w.row, w.column]),
            store(f"o{i}", f"d{i}", [w.row, w.column], target),
        ]
        target = f"o{i}"
    return incore([*parameters(windows, "FP16"), out("out", *shape)], [*body, ret(target)], **more)
