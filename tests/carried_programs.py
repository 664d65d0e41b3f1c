"""Loops over products that fill a part of the rows of their accumulator."""

from __future__ import annotations

from typing import Any

from pypto_ir.stmt import For, Program, walk
from pypto_ir.types import TileType
from tests.helpers import Json, give, incore, let, load, loop, main, out, ret, scalar, store, tensor


def split_k(
    shape: list[int],
    valid: Any = "v",
    *,
    memory: str = "Acc",
    alias: bool = False,
    again: bool = False,
    inside: str | None = None,
    read: bool = False,
) -> Program:
    """A K loop over products of `valid` rows: the first step multiplies, every other one adds; what a step gives is `read` too. With
    `inside` the rows are computed so in every step."""
    rows, cols = shape[-2:]
    lead = shape[:-2]
    batched = "batch_" if lead else ""
    zeros = [0] * len(lead)
    region = [*lead, "w" if inside else valid, 64]
    start: Json = let("z", "tile.create", shape, dtype="FP32", target_memory=memory)

    def step(i: int, acc: str, result: str) -> list[Json]:
        return [
            *([{"let": f"w{i}" if i else "w", "expr": inside}] if inside else []),
            load(f"a{i}", "x", [*zeros, 0, "k"], [*lead, rows, 64], region, memory="Mat"),
            load(f"b{i}", "y", [*zeros, "k", 0], [*lead, 64, cols], memory="Mat"),
            {
                "if": "k == 0",
                "then": [let(f"p{i}", f"tile.{batched}matmul", f"a{i}", f"b{i}"), give(f"p{i}")],
                "else": [let(f"q{i}", f"tile.{batched}matmul_acc", acc, f"a{i}", f"b{i}"), give(f"q{i}")],
                "results": [result],
            },
            *([{"op": "tile.store", "args": [result, [0] * len(shape), "out_0"]}] if read else []),
        ]

    body: list[Json] = [start, *([{"let": "z2", "expr": "z"}] if alias else [])]
    body.append(loop("k", [0, 128, 64], {"acc": "z2" if alias else "z"}, [*step(0, "acc", "n"), give("n")], ["r"]))
    last = "r"
    if again:
        body.append(loop("k", [0, 128, 64], {"acc2": "r"}, [*step(1, "acc2", "n1"), give("n1")], ["r2"]))
        body[-1]["for"] = "k2"
        body[-1]["body"] = [_renamed(s) for s in body[-1]["body"]]
        last = "r2"
    return incore(
        [
            tensor("x", *lead, rows, 128, dtype="FP16"),
            tensor("y", *lead, 128, cols, dtype="FP16"),
            scalar("v", range=(1, rows)),
            out("out_0", *shape),
        ],
        [*body, store("out_1", last, [0] * len(shape), "out_0"), ret("out_1")],
    )


def _renamed(value: Any) -> Any:
    """The loop variable k as k2."""
    if isinstance(value, dict):
        return {key: _renamed(v) for key, v in value.items()}
    if isinstance(value, list):
        return [_renamed(v) for v in value]
    return {"k": "k2", "k == 0": "k2 == 0", "v + 0 * k": "v + 0 * k2"}.get(value, value) if isinstance(value, str) else value


def carried(p: Program) -> list[TileType]:
    """The tiles that the loops of a function carry."""
    found = [c.var.type for s in walk(main(p).body) if isinstance(s, For) for c in s.carries]
    return [t for t in found if isinstance(t, TileType)]
