"""Tails of loops over what is no whole number of chunks: lowered with a dynamic valid extent, and run for every length of the tail.

for c in range(0, S, 16): v = min(16, S - c); x = load(t, [0, c, 0], [1, 16, 512], valid [1, v, 512])
"""

from __future__ import annotations

from collections.abc import Callable

from helpers import const, give, incore, kernel, let, load, loop, lowered, out, ret, store, tensor, types, windows

from pypto_ir.expr import const_int
from pypto_ir.interp.compare import equivalent
from pypto_ir.stmt import Program

CHUNK = 16


def assert_every_length_equal(before: Program, after: Program, name: str, lengths: range, given: Callable[[int], dict[str, int]]) -> None:
    """Both programs run once for every length, without a loop cut short."""
    verdict = equivalent(
        before, after, name, seeds=lengths, fills=("small",), trips=(None,), seconds=900.0, given=lambda _, length: given(length)
    )
    assert verdict.equal, str(verdict.difference)
    covered = verdict.covered[name]
    assert [seed for seed, _ in covered.runs] == list(lengths) and covered.complete, covered.refused


def test_softmax_of_every_length_of_context() -> None:
    before = kernel("softmax_tail_4d")
    after = lowered(before, complete=False)
    assert_every_length_equal(before, after, "softmax", range(1, 257), lambda tail: {"ctx": 3840 + tail, "nb": 16})


def chunks(*middle: str, pads: bool) -> Program:
    """Chunks of a dynamic dimension, each with one op after another; what is padded first is summed up row by row as well."""
    body = [
        {"let": "v", "expr": f"min({CHUNK}, S - c)"},
        load("t", "x", [0, "c", 0], [1, CHUNK, 512], [1, "v", 512]),
        *([let("p", "tile.fillpad", "t", pad_value="zero")] if pads else []),
    ]
    last = "p" if pads else "t"
    for i, op in enumerate(middle):
        body.append(let(f"m{i}", f"tile.{op}", last))
        last = f"m{i}"
    if pads:
        body += [let("a1", "tile.add", "a", last), give("a1")]
        zeros = let("z", "tile.full", [1, CHUNK, 512], const(0.0), dtype="FP32")
        ends = [zeros, loop("c", [0, "S", CHUNK], {"a": "z"}, body, ["r"]), store("o", "r", [0, 0, 0], "out_0"), ret("o")]
        return incore([tensor("x", 1, "S", 512), out("out_0", 1, CHUNK, 512)], ends, dynamic=["S"])
    body += [store("o1", last, [0, "c", 0], "o"), give("o1")]
    ends = [loop("c", [0, "S", CHUNK], {"o": "out_0"}, body, ["r"]), ret("r")]
    return incore([tensor("x", 1, "S", 512), out("out_0", 1, "S", 512)], ends, dynamic=["S"])


def test_chunks_of_every_length_of_a_dynamic_dimension_are_stored() -> None:
    before = chunks("exp", "neg", pads=False)
    after = lowered(before, complete=False)
    assert all(t.static_shape == (CHUNK, 512) and const_int(t.valid[0]) is None for t in types(after).values())
    assert windows(after) == [[1, None, 512]]
    assert_every_length_equal(before, after, "main", range(1, 3 * CHUNK + 2), lambda size: {"S": size})


def test_chunks_of_every_length_of_a_dynamic_dimension_are_summed() -> None:
    before = chunks("abs", pads=True)
    after = lowered(before, complete=False)
    assert all(t.static_shape == (CHUNK, 512) for t in types(after).values())
    assert_every_length_equal(before, after, "main", range(1, 3 * CHUNK + 2), lambda size: {"S": size})
