"""Programs whose new tiles start as zeros instead of undefined, so that a comparison of runs sees what is computed from them.

An accumulator that starts from `tile.create` is undefined on every machine that does not clear it, and so is all that is added to it:
two runs would agree on nothing. Where two programs differ in other things than their new tiles, both may be compared with zeros there.
"""

from __future__ import annotations

from pypto_ir.dtypes import DType
from pypto_ir.expr import Const
from pypto_ir.rebuilding import Rebuilder, changed
from pypto_ir.stmt import Call, Program, Value


def filled(program: Program) -> Program:
    """The program with every `tile.create` as a `tile.full` of zeros; only to be run, the types of its tiles stay."""
    return changed(program, functions=tuple(map(_Filling().function, program.functions)))


class _Filling(Rebuilder):
    def value(self, value: Value) -> Value:
        if not isinstance(value, Call) or value.op != "tile.create":
            return super().value(value)
        dtype = DType(str(value.kwarg("dtype")))
        zero = Const(0.0 if dtype.is_float else False if dtype is DType.BOOL else 0, dtype)
        return Call("tile.full", (value.args[0], zero), (("dtype", dtype.value),))
