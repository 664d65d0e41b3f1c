"""The pass: every function with its MX scales in physical form.

    f(a_s: MX_A_ZZ [64, 4]):                              f(a_s: MX_A_ZZ [1, 4, 2, 16, 2]), stamped:
        t = load(a_s, [16, 2], [16, 2], [16, 2])              t = load(a_s, [0, 1, 1, 0, 0], [1, 1, 1, 16, 2], [1, 1, 1, 16, 2])

The result of a load stays the logical tile that it was, its valid region included; what is read from memory are whole boxes. A function
that carries the stamp is left alone: whether a tensor is blocked is never guessed from its shape.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from egraph_rules.mx.calls import Blocked, check_call, rewrite_call
from egraph_rules.mx.products import check_product
from egraph_rules.mx.proofs import Prover, Where
from egraph_rules.mx.types import blocked_type, mx_tensors, type_finding
from pypto_ir.diagnostics import Diagnostics, Place
from pypto_ir.expr import Var
from pypto_ir.json_place import path_text
from pypto_ir.rebuilding import Rebuilder, changed
from pypto_ir.stmt import Assign, Call, Eval, Function, Program, Value, definitions
from pypto_ir.types import TensorType, Type
from pypto_ir.verify.boxes import STAMP, stamped
from pypto_ir.verify.places import walk_paths


@dataclass(slots=True)
class Blocking:
    """What the pass did: the program, how often each rule was used, and the loads of which no bound is known that keeps all of their
    boxes inside the tensor, as (function, statement)."""

    program: Program
    fired: dict[str, int] = field(default_factory=dict)
    loads: int = 0
    unbounded: list[tuple[str, str]] = field(default_factory=list)


def holds_mx(program: Program) -> bool:
    """True where a function that is not stamped names an MX tensor."""
    return any(mx_tensors(t) for f in program.functions if not stamped(f) for t in _types(f))


def _types(f: Function) -> list[Type]:
    own = [p.var.type for p in f.params]
    return [*own, *f.returns, *(v.type for _, s in walk_paths(f.body, ()) for v in definitions(s))]


def block_scales(program: Program, prover: Prover, bag: Diagnostics, *, stores: bool = False) -> Blocking:
    """The program in physical form; every reason why it has none goes to `bag`, and then the program stays as it is.

    `prover` knows the whole program; with `stores` also stores of whole FP8E8M0 boxes are rewritten. Where every function is stamped
    the same program comes back."""
    result = Blocking(program)
    functions = tuple(f if stamped(f) else _Function(i, f, prover, bag, stores, result).blocked() for i, f in enumerate(program.functions))
    if not bag.has_errors:
        result.program = changed(program, functions=functions)
    return result


class _Function:
    """One function on its way."""

    def __init__(self, number: int, f: Function, prover: Prover, bag: Diagnostics, stores: bool, result: Blocking) -> None:
        self.f, self.prover, self.bag, self.stores, self.result = f, prover, bag, stores, result
        self.path = ("functions", number)
        self.refused: set[TensorType] = set()
        self.calls: dict[int, Call] = {}

    def blocked(self) -> Function:
        """The function rewritten and stamped."""
        self.signature()
        for path, s in walk_paths(self.f.body, (*self.path, "body")):
            self.check(Where(self.f, path, s))
        f = _Rewriter(self.calls).function(self.f)
        retyped = sum(t is not blocked_type(t) for t in _types(self.f))
        if retyped:
            self.result.fired["mx.type"] = self.result.fired.get("mx.type", 0) + retyped
        return replace(f, attrs=(*f.attrs, (STAMP, True)))

    def signature(self) -> None:
        for key, types in (("params", [p.var.type for p in self.f.params]), ("returns", list(self.f.returns))):
            for i, t in enumerate(types):
                self.type(t, Place(path=path_text((*self.path, key, i)), function=self.f.name))

    def type(self, t: Type, place: Place) -> None:
        """Report each tensor type that has no physical form once for the function."""
        for tensor in mx_tensors(t):
            found = type_finding(tensor)
            if found is not None and tensor not in self.refused:
                self.refused.add(tensor)
                found.report(self.bag, place)

    def check(self, at: Where) -> None:
        s = at.statement
        if isinstance(s, Assign | Eval) and isinstance(s.value, Call):
            target = s.target.type if isinstance(s, Assign) else None
            check_product(at, s.value, self.bag)
            if check_call(at, s.value, target, self.stores, self.bag):
                done = rewrite_call(at, s.value, target, self.prover, self.bag, self.result.fired)
                self.note(at, done)
                if done is not None:
                    self.calls[id(s.value)] = done.call
        for var in definitions(s):
            self.type(var.type, at.place)

    def note(self, at: Where, done: Blocked | None) -> None:
        if done is not None and done.window:
            self.result.loads += 1
            if not done.inside:
                self.result.unbounded.append((self.f.name, at.place.statement or ""))


class _Rewriter(Rebuilder):
    """Replaces types and the calls that name coordinates of scales."""

    def __init__(self, calls: dict[int, Call]) -> None:
        self.calls = calls
        self.retyped: dict[str, Var] = {}

    def var(self, v: Var) -> Var:
        """One variable for all uses of a name whose type changes."""
        new = super().var(v)
        return v if new is v else self.retyped.setdefault(v.name, new)

    def type(self, t: Type) -> Type:
        return blocked_type(t)

    def value(self, value: Value) -> Value:
        call = self.calls.get(id(value))
        return super().value(value if call is None else call)
