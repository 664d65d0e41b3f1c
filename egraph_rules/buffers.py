"""Global memory as buffers and versions.

A tensor value is a window on one buffer: a parameter's, or that of a `tensor.create`. Everything that a store, a loop carry or a branch
hands on stays in the buffer it came from. A write makes a new version of its buffer; two loads are equal only where they read the same
version. In

    out_1 = store(t, .., out)         writes buffer out: version 1
    for i carry o = out_1:            the body writes out, so the loop starts a version of its own
        x = load(o, ..)               reads that version, never version 1

the load in the loop is another load than one before it.
"""

from __future__ import annotations

from pypto_ir.expr import Expr, variables
from pypto_ir.ops.registry import find_op
from pypto_ir.stmt import (
    Assign,
    Block,
    Call,
    Eval,
    For,
    Function,
    FunctionCall,
    If,
    Program,
    Stmt,
    Submit,
    While,
    Yield,
    blocks,
    terminator,
    value_exprs,
    walk,
)  # fmt: skip
from pypto_ir.types import TensorType, TupleType, Type
from pypto_ir.unions import Unions


def holds_tensor(t: Type) -> bool:
    return isinstance(t, TensorType) or (isinstance(t, TupleType) and any(map(holds_tensor, t.items)))


class Buffers(Unions):
    """Which buffer each tensor value of a function lives in; buffers are named after the first value in them."""


def buffers(function: Function, aliased: tuple[tuple[str, str], ...] = ()) -> Buffers:
    """The buffers of a function; `aliased` are pairs of parameters that some call passes one buffer."""
    result = Buffers()
    for a, b in aliased:
        result.join(a, b)
    _collect(function.body, result)
    return result


def _tensors(e: Expr) -> list[str]:
    return [v.name for v in variables(e) if holds_tensor(v.type)]


def _collect(block: Block, found: Buffers) -> None:
    for s in walk(block):
        match s:
            case Assign(targets=targets, value=value):
                sources = [n for e in value_exprs(value) for n in _sources(value, e)]
                results = [t.name for t in targets if holds_tensor(t.type)]
                if results:
                    for a in [*results[1:], *sources]:
                        found.join(results[0], a)
            case For(carries=carries, body=body, results=results) | While(carries=carries, body=body, results=results):
                last = terminator(body)
                yields = last.values if isinstance(last, Yield) else ()
                for i, carry in enumerate(carries):
                    if holds_tensor(carry.var.type):
                        others = [*_tensors(carry.init)]
                        others += _tensors(yields[i]) if i < len(yields) else []
                        others += [results[i].name] if i < len(results) else []
                        for other in others:
                            found.join(carry.var.name, other)
            case If(results=results) as branch:
                for arm in blocks(branch):
                    last = terminator(arm)
                    if isinstance(last, Yield):
                        for var, value in zip(results, last.values, strict=False):
                            for other in _tensors(value):
                                found.join(var.name, other)


def _sources(value: object, e: Expr) -> list[str]:
    """The tensors that a value of tensor type may share its buffer with, among the operands `e` belongs to."""
    if isinstance(value, Call):
        op = find_op(value.op)
        if op is not None and (op.aliases is not None or op.writes_memory):
            wanted = op.writes_memory or (op.aliases,)
            return [n for i in wanted if i is not None and i < len(value.args) and value.args[i] is e for n in _tensors(e)]
    return _tensors(e)


def aliased_params(program: Program) -> dict[str, tuple[tuple[str, str], ...]]:
    """For each function, the pairs of tensor parameters that some call may pass one buffer."""
    result: dict[str, dict[tuple[str, str], None]] = {}
    for caller in program.functions:
        calls = [
            s.value for s in walk(caller.body)
            if isinstance(s, Assign | Eval) and isinstance(s.value, FunctionCall | Submit)
        ]  # fmt: skip
        own = _origins(caller) if calls else {}
        for call in calls:
            callee = program.function(call.function)
            if callee is None:
                continue
            passed = [
                (param.var.name, {o for name in _tensors(arg) for o in own.get(name, {name})})
                for param, arg in zip(callee.params, call.args, strict=False)
            ]
            for i, (a, first) in enumerate(passed):
                for b, second in passed[i + 1 :]:
                    if first & second:
                        result.setdefault(callee.name, {})[(a, b)] = None
    return {name: tuple(pairs) for name, pairs in result.items()}


def _origins(function: Function) -> dict[str, set[str]]:
    """The buffers that each tensor value may lie in, named after what made them; a call's result lies in some argument's, or in one of
    its own."""
    found: dict[str, set[str]] = {}
    links: list[tuple[str, list[str]]] = []
    for s in walk(function.body):
        if isinstance(s, Assign):
            sources = [n for e in value_exprs(s.value) for n in _sources(s.value, e)]
            links += [(t.name, [*sources, *([t.name] if isinstance(s.value, FunctionCall | Submit) else [])]) for t in s.targets]
        elif isinstance(s, For | While):
            last = terminator(s.body)
            yields = last.values if isinstance(last, Yield) else ()
            for i, carry in enumerate(s.carries):
                into = [n for e in (carry.init, *yields[i : i + 1]) for n in _tensors(e)]
                links.append((carry.var.name, into))
                links += [(r.name, [carry.var.name]) for r in s.results[i : i + 1]]
        elif isinstance(s, If):
            for arm in blocks(s):
                last = terminator(arm)
                if isinstance(last, Yield):
                    links += [(r.name, _tensors(v)) for r, v in zip(s.results, last.values, strict=False)]
    changed = True
    while changed:
        changed = False
        for name, sources in links:
            known = found.setdefault(name, set())
            new = {o for n in sources for o in (found.get(n, {n}) if n != name else {n})} or {name}
            if not new <= known:
                known |= new
                changed = True
    return found


def written(s: Stmt, found: Buffers) -> tuple[str, ...]:
    """The buffers that a statement writes, nested blocks included, in order of first write; `EVERYTHING` among them where an op
    without a declaration, or one that orders itself against all others, stands in it."""
    names: dict[str, None] = {}
    for nested in (s, *(n for block in blocks(s) for n in walk(block))):
        for name in _own_writes(nested):
            names[found.of(name)] = None
    return tuple(names)


#: stands for every buffer in the result of `written`
EVERYTHING = "*"


def _own_writes(s: Stmt) -> list[str]:
    if not isinstance(s, Assign | Eval):
        return []
    value = s.value
    match value:
        case Call(op=name, args=args):
            op = find_op(name)
            if op is None or op.barrier:
                return [EVERYTHING]
            return [n for i in op.writes_memory if i < len(args) for n in _tensors(args[i])]
        case FunctionCall() | Submit():
            return [n for e in value_exprs(value) for n in _tensors(e)]
    return []


class Versions:
    """The current version of every buffer during a walk in program order."""

    def __init__(self, found: Buffers) -> None:
        self._buffers, self._current, self._next = found, dict[str, int](), 1

    def of(self, tensor: Expr) -> tuple[tuple[str, int], ...]:
        """(buffer, version) of every buffer that an operand may read."""
        names = {self._buffers.of(n): None for n in _tensors(tensor)}
        floor = self._current.get(EVERYTHING, 0)
        return tuple((name, max(floor, self._current.get(name, 0))) for name in names)

    def bump(self, names: tuple[str, ...]) -> None:
        """New versions for buffers that are written."""
        for name in names:
            self._current[name] = self._next
            self._next += 1

    def snapshot(self) -> dict[str, int]:
        return dict(self._current)

    def restore(self, saved: dict[str, int]) -> None:
        self._current = dict(saved)
