"""Accumulators of many pages in loops three deep, whose e-graphs must not grow with the pages.

    for i in range(2): for j in range(2): for k in range(4):
        acc = batch_matmul_acc(acc, x[:, :, 16k:], y[:, 16k:, :], init_cond = k == 0)

over pages [16, 16] of Ascend950, of which 256 fill L0C.
"""

from __future__ import annotations

import json
from typing import Any

#: pages of the accumulators that are compared: written out, and in loops
WRITTEN_OUT, LOOPS = (2, 16), (64, 256)


def accumulating_program(batch: int) -> str:
    """The kernel as a program file."""
    wide, page, factor = 64, [batch, 16, 16], {"target_memory": "Mat"}
    turn: list[dict[str, Any]] = [
        {"let": "a", "op": "tile.load", "args": ["x", [0, 0, "k"], page, page], "kwargs": factor},
        {"let": "b", "op": "tile.load", "args": ["y", [0, "k", 0], page, page], "kwargs": factor},
        {"let": "m", "op": "tile.batch_matmul_acc", "args": ["acc", "a", "b", "k == 0"]},
        {"yield": ["m"]},
    ]
    acc, bounds = "acc", {"k": [0, wide, 16], "j": [0, 2, 1], "i": [0, 2, 1]}
    for depth, (var, (start, stop, step)) in enumerate(bounds.items()):
        outer = "z" if depth == len(bounds) - 1 else f"acc{depth}"
        carry = [{"name": acc, "init": outer}]
        turn = [
            {"for": var, "range": [start, stop, step], "carry": carry, "body": turn, "results": [f"r{depth}"]},
            {"yield": [f"r{depth}"]},
        ]
        acc = outer
    body = [
        {"let": "z", "op": "tile.create", "args": [page], "kwargs": {"dtype": "FP32", "target_memory": "Acc"}},
        turn[0],
        {"let": "o", "op": "tile.store", "args": [f"r{len(bounds) - 1}", [0, 0, 0], "out"]},
        {"return": ["o"]},
    ]
    result = {"tensor": page, "dtype": "FP32"}
    params = [
        {"name": "x", "type": {"tensor": [batch, 16, wide], "dtype": "FP16"}},
        {"name": "y", "type": {"tensor": [batch, wide, 16], "dtype": "FP16"}},
        {"name": "out", "type": result, "direction": "Out"},
    ]
    kernel = {"name": "accumulate", "kind": "InCore", "params": params, "returns": [result], "body": body}
    return json.dumps({"pypto_ir": 1, "name": "Accumulating", "target": "ascend950", "functions": [kernel]})
