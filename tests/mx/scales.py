"""Programs over MX scales in a few words, and what blocking must promise of each.

    before = incore([a_scales(), kept(16, 2)], [scale_load("t", "a_s", [16, 2], [16, 2]), *keep("t"), ret("o")])
    after = blocked(before)

A load is kept by storing its tile into an ND tensor, so that a wrong box, or a wrong order of boxes, gives wrong bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from helpers import Dim, Json, calls, let, out, store, tensor

from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Diagnostic, Refused, Severity
from pypto_ir.interp.compare import Verdict, equivalent
from pypto_ir.interp.filled import filled
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program
from pypto_ir.printed.program_reader import read_printed
from pypto_ir.printed.program_writer import write_text
from pypto_ir.stmt import Program, tuple_items
from pypto_ir.text import expr_text
from pypto_ir.types import TensorType
from pypto_ir.verify import verify_program
from pypto_ir.verify.boxes import blocked_scales

A, B = "MX_A_ZZ", "MX_B_NN"
POLICIES = ("cheapest", "upstream")


def scales(name: str, *shape: Dim, layout: str = A, dtype: str = "FP8E8M0", **more: Any) -> Json:
    """A tensor of scales in its logical shape."""
    return tensor(name, *shape, dtype=dtype, layout=layout, **more)


def scale_load(
    name: str, source: str, offsets: Sequence[Dim], window: Sequence[Dim], valid: Sequence[Dim] | None = None, **more: Any
) -> Json:
    """A load of scales into Mat."""
    given = window if valid is None else valid
    return let(name, "tile.load", source, list(offsets), list(window), list(given), target_memory="Mat", **more)


def kept(*shape: int, name: str = "o_0", dtype: str = "FP8E8M0") -> Json:
    """The ND tensor that a loaded tile is stored into."""
    return out(name, *shape, dtype=dtype)


def keep(tile: str, name: str = "o", target: str = "o_0") -> list[Json]:
    return [store(name, tile, [0, 0], target)]


def call(result: str, callee: str, *args: Any, **more: Any) -> Json:
    """`result = callee(args)`."""
    return {"let": result, "call": callee, "args": list(args), **more}


def run_mx(before: Program, **options: Any) -> Program:
    """The program blocked; input and output are not compared yet."""
    return optimize(before, stages=("mx",), validate=False, **options).program


def blocked(before: Program, *, equal: bool = True, without: Sequence[str] = (), **options: Any) -> Program:
    """`before` blocked, and checked: verified, stamped, equal on packed bytes, kept by both forms of text and by a second run."""
    after = optimize(before, stages=("mx",), **options).program
    assert not [d for d in verify_program(after) if d.severity is Severity.ERROR]
    assert not [d for f in after.functions for d in blocked_scales(f)]
    assert all(("mx_tensor_views_blocked", True) in f.attrs for f in after.functions)
    if equal:
        verdict = compared(before, after, without)
        assert verdict.equal, str(verdict.difference)
        assert verdict.validated, f"never run: {verdict.covered}"
    assert optimize(after, stages=("mx",)).program is after
    assert read_program(write_program(after)) == after
    assert write_text(read_printed(write_text(after)).program) == write_text(after)
    again = read_printed(write_text(after))
    assert not again.warnings and not [d for d in verify_program(again.program) if d.severity is Severity.ERROR]
    return after


def compared(before: Program, after: Program, without: Sequence[str] = (), seeds: Sequence[int] = range(4)) -> Verdict:
    return equivalent(filled(before), filled(after), seeds=seeds, seconds=10.0, without=without)


def mx_refused(before: Program, *codes: str, **options: Any) -> tuple[Diagnostic, ...]:
    """The diagnostics of a refusal, which have exactly these codes in this order; a place and advice stand in each."""
    with pytest.raises(Refused) as caught:
        optimize(before, stages=("mx",), **options)
    found = caught.value.diagnostics
    assert [d.code for d in found] == list(codes), str(caught.value)
    assert all(d.help and d.place.function and d.place.path for d in found)
    return found


def texts(p: Program, op: str, i: int, name: str = "main") -> list[list[str]]:
    """Operand i of the calls of an op as text, dim by dim."""
    return [[expr_text(e) for e in tuple_items(c.args[i]) or ()] for c in calls(p, op, name)]


def shape_of(p: Program, param: str, name: str = "main") -> list[str]:
    """The shape of a tensor parameter as text."""
    f = p.function(name)
    assert f is not None
    t = next(x.var.type for x in f.params if x.var.name == param)
    assert isinstance(t, TensorType)
    return [expr_text(d) for d in t.shape]
