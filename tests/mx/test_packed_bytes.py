"""Programs are compared with scales as packed bytes: a wrong box, or a wrong order of boxes, gives wrong numbers and never leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers import Json, function, give, incore, kernel, let, loop, out, program, ret, store, tensor
from scales import A, B, blocked, compared, keep, kept, mx_refused, run_mx, scale_load, scales

import egraph_rules.mx.block as block
import egraph_rules.mx.calls as calls
import egraph_rules.mx.offsets as offsets
import pypto_ir.ops.memory as memory
from egraph_rules.mx.facts import FactProver
from egraph_rules.mx.upstream import UpstreamProver
from pypto_eqsat.cli import main as command
from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Refused
from pypto_ir.expr import Binary, MakeTuple, index
from pypto_ir.interp.filled import filled
from pypto_ir.interp.machine import run
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program
from pypto_ir.rebuilding import Rebuilder
from pypto_ir.stmt import Call, Program, Return, Value, tuple_items
from pypto_ir.types import Layout, dims


def one(layout: str = A, window: tuple[int, int] = (32, 4), at: tuple[int, int] = (16, 2)) -> Program:
    """A window of several boxes along both axes."""
    shape, (h, w), (m, g) = (96, 8), window, at
    pair = (lambda x, y: [x, y]) if layout == A else (lambda x, y: [y, x])
    load = scale_load("t", "s", pair(m, g), pair(h, w))
    return incore([scales("s", *pair(*shape), layout=layout), kept(*pair(h, w))], [load, *keep("t"), ret("o")])


class Changed(Rebuilder):
    """A blocked program with other offsets or windows of its loads."""

    def __init__(self, change: Callable[[list[Any], list[Any]], tuple[list[Any], list[Any]]]) -> None:
        self.change = change

    def value(self, value: Value) -> Value:
        if isinstance(value, Call) and value.op == "tile.load":
            at, size = (list(tuple_items(value.args[i]) or ()) for i in (1, 2))
            at, size = self.change(at, size)
            boxes = MakeTuple(tuple(size))
            return replace(value, args=(value.args[0], MakeTuple(tuple(at)), boxes, boxes))
        return super().value(value)


MUTANTS: dict[str, Callable[[list[Any], list[Any]], tuple[list[Any], list[Any]]]] = {
    "the next block": lambda at, size: ([at[0], index(2), *at[2:]], size),
    "the next pair": lambda at, size: ([*at[:2], index(2), *at[3:]], size),
    "the first box": lambda at, size: (list(dims(0, 0, 0, 0, 0)), size),
}


@pytest.mark.parametrize("layout", [A, B])
@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_box_is_a_difference(name: str, layout: str) -> None:
    before = one(layout)
    after = blocked(before)
    wrong = replace(after, functions=tuple(map(Changed(MUTANTS[name]).function, after.functions)))
    verdict = compared(before, wrong)
    assert not verdict.equal and verdict.difference is not None and verdict.difference.what == "buffer o_0"


@pytest.mark.parametrize("layout", [A, B])
def test_a_wrong_order_of_boxes_or_of_cells_is_a_difference(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would happen on a machine that read boxes, or the cells of a box, in another order than they are packed."""
    before = one(layout, (32, 4))
    after = blocked(before)
    for order in ((0, 2, 1, 3), (1, 3, 0, 2), (1, 2, 0, 3), (0, 3, 1, 2)):
        right = order == {A: (0, 2, 1, 3), B: (1, 3, 0, 2)}[layout]
        monkeypatch.setitem(memory._BOX_ORDER, Layout(layout), order)
        assert compared(before, after).equal is right, order


block_type = block.blocked_type


def turned(t: Any, logical: Any) -> Any:
    """A blocked tensor type with its blocks and pairs exchanged."""
    return t if t is logical else replace(t, shape=tuple(t.shape[i] for i in (0, 2, 1, 3, 4)))


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "block and group axis exchanged": (offsets, "by_axis", lambda layout, pair: (pair[1], pair[0]) if layout is Layout.MX_A_ZZ else pair),
    "windows of the other layout": (
        calls, "blocked_window",
        lambda layout, shape, real=calls.blocked_window: real(layout, shape)[:1] + real(layout, shape)[2:0:-1] + real(layout, shape)[3:],
    ),
    "types of the other layout": (block, "blocked_type", lambda t: turned(block_type(t), t)),
}  # fmt: skip


@pytest.mark.parametrize("layout", [A, B])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_pass_never_leaves(name: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, attribute, wrong = FAULTS[name]
    monkeypatch.setattr(module, attribute, wrong)
    before = one(layout, (32, 2), (32, 6)) if layout == A else one(layout, (16, 4), (48, 4))
    with pytest.raises(Refused) as caught:
        optimize(before, stages=("mx",))
    assert {d.code for d in caught.value.diagnostics} <= {"X003", "X004", "B107", "B116"}


def test_a_prover_that_believes_everything_gives_no_wrong_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in steps of half a box, which nothing proves: the comparison sees what a false proof would do."""
    body = [scale_load("t", "s", ["i", 0], [16, 2]), store("n", "t", ["i", 0], "c"), give("n")]
    before = incore([scales("s", 64, 2), kept(64, 2)], [loop("i", [0, 48, 8], {"c": "o_0"}, body, ["o"]), ret("o")])
    mx_refused(before, "B108")
    for proof in ("divisible", "non_negative"):
        monkeypatch.setattr(FactProver, proof, lambda *given: None)
    with pytest.raises(Refused) as caught:
        optimize(before, stages=("mx",))
    assert [d.code for d in caught.value.diagnostics] == ["X004"]


def test_a_wrong_quotient_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    body = [scale_load("t", "s", ["i", 0], [16, 2]), store("n", "t", ["i", 0], "c"), give("n")]
    before = incore([scales("s", 64, 2), kept(64, 2)], [loop("i", [0, 64, 16], {"c": "o_0"}, body, ["o"]), ret("o")])
    monkeypatch.setattr(UpstreamProver, "quotient", lambda self, at, e, by: Binary("floordiv", e, index(2 * by)))
    with pytest.raises(Refused) as caught:
        optimize(before, stages=("mx",), policy="upstream")
    assert [d.code for d in caught.value.diagnostics] == ["X004"]


def test_mx_expert_is_compared_by_what_it_adds_although_its_accumulator_starts_undefined() -> None:
    """`tile.create` in Acc leaves all sums undefined; with zeros there the comparison sees every scale."""
    before = kernel("mx_expert")
    after = run_mx(before)
    outcome = run(before, "main", seed=0, max_trips=1)
    assert not any(ok[written].any() for n in outcome.memory["out"].written_pages() for _, ok, written in [outcome.memory["out"].page(n)])
    outcome = run(filled(before), "main", seed=0, max_trips=1)
    assert all(ok[written].all() for n in outcome.memory["out"].written_pages() for _, ok, written in [outcome.memory["out"].page(n)])
    verdict = compared(before, after, ["mx_gemm"], seeds=range(1))
    assert verdict.equal and verdict.validated
    text = write_program(after)
    assert "r0 // 16" in text
    wrong = read_program(text.replace("r0 // 16", "r0 // 32"))
    assert not compared(before, wrong, ["mx_gemm"], seeds=range(1)).equal


def test_given_scales_are_the_logical_matrix_before_and_after(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    before = one(A)
    after = blocked(before)
    matrix = np.exp2(np.arange(96 * 8) % 7 - 3).reshape(96, 8).astype(np.float32)
    expected = matrix[16:48, 2:6]
    for p in (before, after):
        outcome = run(p, "main", {"s": matrix})
        data, ok, _ = outcome.memory["o_0"].arrays()
        assert ok.all() and (data.astype(np.float32).reshape(32, 4) == expected).all()
    packed = matrix.reshape(6, 16, 4, 2).transpose(0, 2, 1, 3)[None]
    outcome = run(after, "main", {"s": packed})
    assert (outcome.memory["o_0"].arrays()[0].astype(np.float32).reshape(32, 4) == expected).all()
    np.save(tmp_path / "s.npy", matrix)
    shown = []
    for name, p in (("before", before), ("after", after)):
        (tmp_path / f"{name}.json").write_text(write_program(p))
        assert command(["run", str(tmp_path / f"{name}.json"), "--input", f"s={tmp_path / 's.npy'}"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


def test_returned_scales_are_compared_by_their_memory() -> None:
    f: Json = function(
        "main", [scales("s", 32, 4), scales("r", 32, 4)], [ret("s", "r")], returns=[scales("x", 32, 4)["type"]] * 2, kind="Opaque"
    )  # fmt: skip
    before = program(f)
    after = run_mx(before)
    assert compared(before, after).equal
    end = after.functions[0].body[0]
    assert isinstance(end, Return)
    swapped = replace(after, functions=(replace(after.functions[0], body=(replace(end, values=end.values[::-1]),)),))
    assert not compared(before, swapped).equal


def test_zeros_take_the_place_of_new_tiles_only() -> None:
    acc = let("a", "tile.create", [16, 16], dtype="FP32", target_memory="Vec")
    before = incore([tensor("x", 16, 16), out("o_0", 16, 16)], [acc, *keep("a"), ret("o")])
    zeros = filled(before)
    assert run(zeros, "main").memory["o_0"].arrays()[1].all() and not run(before, "main").memory["o_0"].arrays()[1].any()
    assert filled(zeros) is zeros
