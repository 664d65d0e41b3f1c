"""SSA form, scopes and the shape of blocks.

A name is defined once in a function and used only where its definition is in view: names of a loop body or an
arm end with it, names of a scope's body stay. A loop with two carries ends its body with a yield of two
values and has two results; both arms of a branch with results yield. For example, `for k: carry acc = a;
yield acc1, acc2` is S106 (1 carry, 2 values yielded).
"""

from __future__ import annotations

from collections.abc import Iterable

from pypto_ir.diagnostics import Diagnostics, declare
from pypto_ir.expr import Expr, Var, variables
from pypto_ir.stmt import (
    Block,
    Break,
    Continue,
    For,
    Function,
    If,
    Program,
    Return,
    Scope,
    Stmt,
    While,
    Yield,
    definitions,
    own_exprs,
)
from pypto_ir.types import Type, type_exprs
from pypto_ir.verify.places import StmtPath, place

declare(
    S101="a name is defined twice in a function",
    S102="a name is used where no definition of it is in view",
    S103="a statement follows one that ends its block",
    S104="a block that must end in a yield does not, or one that must not yield does",
    S105="break or continue outside of a loop, or inside a loop with carries",
    S106="the numbers of carries, yielded values and results differ",
    S107="a return gives another number of values than the function declares, or is missing",
    S108="a function is defined twice in a program",
)


def verify_ssa(program: Program) -> Diagnostics:
    """Every violation of SSA form in a program, functions in order."""
    bag = Diagnostics()
    seen: set[str] = set()
    for i, function in enumerate(program.functions):
        path = ("functions", i)
        if function.name in seen:
            bag.add(
                "S108",
                f"function {function.name} is defined a second time",
                place(function, path),
                "rename one of them",
            )
        seen.add(function.name)
        _FunctionCheck(bag, function, program.dynamic).check(path)
    return bag


class _FunctionCheck:
    def __init__(self, bag: Diagnostics, function: Function, dims: Iterable[str]) -> None:
        self.bag, self.function = bag, function
        self.defined: set[str] = set()
        self.visible: set[str] = set(dims)
        self.carried_loop: list[bool] = []

    def check(self, path: StmtPath) -> None:
        function = self.function
        params = {param.var.name for param in function.params}
        for i, param in enumerate(function.params):
            at = (*path, "params", i)
            if param.var.name in self.defined:
                self.bag.add(
                    "S101",
                    f"parameter {param.var.name} is defined a second time",
                    place(function, at),
                    "rename it",
                )
            self.defined.add(param.var.name)
        self.visible |= params
        self.signature(path)
        external = function.verbatim is not None or function.external_source is not None
        if external:
            return
        self.block(function.body, (*path, "body"), None)
        if function.returns and not _always_returns(function.body):
            message = f"{function.name} declares {len(function.returns)} results but can end without a return"
            self.bag.add("S107", message, place(function, path), "end the body with a return")

    def signature(self, path: StmtPath) -> None:
        parts = [(param.var.type, (*path, "params", i)) for i, param in enumerate(self.function.params)]
        parts += [(t, (*path, "returns", i)) for i, t in enumerate(self.function.returns)]
        for t, at in parts:
            for name in dict.fromkeys(v.name for e in type_exprs(t) for v in variables(e)):
                if name not in self.visible:
                    message = f"{name} in a signature type is neither a dynamic dim of the program nor a parameter"
                    self.bag.add("S102", message, place(self.function, at), f"list {name} under dynamic")
                    self.visible.add(name)

    def block(self, block: Block, path: StmtPath, owner: Stmt | None) -> list[str]:
        """Check a block; returns the names that it defines at its own level, which are in view when this
        returns.
        """
        added: list[str] = []
        ended: Stmt | None = None
        for i, s in enumerate(block):
            at = (*path, i)
            if ended is not None:
                message = f"a statement follows the {_word(ended)} that ends the block"
                self.bag.add("S103", message, place(self.function, at, s), "remove it, or move it before")
            ended = s if isinstance(s, Return | Yield | Break | Continue) else None
            self.statement(s, at, owner, added)
        return added

    def leave(self, names: Iterable[str]) -> None:
        self.visible.difference_update(names)

    def statement(self, s: Stmt, at: StmtPath, owner: Stmt | None, added: list[str]) -> None:
        if not isinstance(s, While):
            self.uses(own_exprs(s), s, at)
        match s:
            case For() | While():
                self.loop(s, at)
            case If(then=then, orelse=orelse):
                self.leave(self.block(then, (*at, "then"), s))
                self.ends_in_yield(then, s, (*at, "then"))
                if orelse is not None:
                    self.leave(self.block(orelse, (*at, "else"), s))
                    self.ends_in_yield(orelse, s, (*at, "else"))
                elif s.results:
                    message = f"a branch with {len(s.results)} results has no else arm"
                    self.bag.add("S104", message, place(self.function, at, s), "add an else arm that yields")
            case Scope(body=body):
                if s.var is not None:
                    self.define((s.var,), s, at, added)
                added.extend(self.block(body, (*at, "body"), s))
            case Yield():
                self.yields(s, owner, at)
            case Return():
                self.returns(s, at)
            case Break() | Continue():
                self.leaves_loop(s, at)
        if not isinstance(s, Scope):
            results = s.results if isinstance(s, For | While) else definitions(s)
            self.define(results, s, at, added)

    def loop(self, s: For | While, at: StmtPath) -> None:
        if isinstance(s, While):
            self.uses((c.init for c in s.carries), s, at)
        inner: list[str] = []
        bound = (s.var, *(c.var for c in s.carries)) if isinstance(s, For) else tuple(c.var for c in s.carries)
        self.define(bound, s, at, inner)
        if isinstance(s, While):
            self.uses((s.cond,), s, at)
        self.carried_loop.append(bool(s.carries))
        self.leave(self.block(s.body, (*at, "body"), s))
        self.carried_loop.pop()
        self.leave(inner)
        self.ends_in_yield(s.body, s, (*at, "body"))
        if len(s.results) != len(s.carries):
            message = f"a loop with {len(s.carries)} carries has {len(s.results)} results"
            self.bag.add("S106", message, place(self.function, at, s), "name one result for each carry")

    def ends_in_yield(self, block: Block, owner: For | While | If, path: StmtPath) -> None:
        count = len(owner.results) if isinstance(owner, If) else len(owner.carries)
        last = block[-1] if block else None
        if count and not isinstance(last, Yield | Return):
            message = f"this block must end in a yield of {count} values"
            self.bag.add("S104", message, place(self.function, path, owner), "add the yield as its last statement")

    def yields(self, s: Yield, owner: Stmt | None, at: StmtPath) -> None:
        where = place(self.function, at, s)
        if not isinstance(owner, For | While | If):
            self.bag.add(
                "S104",
                "a yield stands outside of a loop body and of an arm",
                where,
                "remove it, or use return",
            )
            return
        what, count = ("result", len(owner.results)) if isinstance(owner, If) else ("carry", len(owner.carries))
        if count != len(s.values):
            message = f"{len(s.values)} values are yielded, one for each {what} is {count}"
            self.bag.add("S106", message, where, f"yield one value for each {what}")

    def returns(self, s: Return, at: StmtPath) -> None:
        if len(s.values) != len(self.function.returns):
            declared = len(self.function.returns)
            message = f"{len(s.values)} values are returned, {self.function.name} declares {declared}"
            self.bag.add("S107", message, place(self.function, at, s), "return what the function declares")

    def leaves_loop(self, s: Break | Continue, at: StmtPath) -> None:
        if not self.carried_loop:
            self.bag.add("S105", f"{_word(s)} stands outside of a loop", place(self.function, at, s), "remove it")
        elif self.carried_loop[-1]:
            message = f"{_word(s)} stands in a loop with carries, whose values it does not hand on"
            self.bag.add("S105", message, place(self.function, at, s), "use a branch that yields the carries")

    def uses(self, exprs: Iterable[Expr], s: Stmt, at: StmtPath) -> None:
        missing = dict.fromkeys(v.name for e in exprs for v in variables(e) if v.name not in self.visible)
        own = {v.name for v in definitions(s)}
        for name in missing:
            if name in own:
                why = "its own definition"
            elif name in self.defined:
                why = "its definition is in a block that has ended"
            else:
                why = "it is defined nowhere before"
            help = "names of a loop body or an arm are handed out by yield" if name in self.defined else None
            self.bag.add("S102", f"{name} is not in view here: {why}", place(self.function, at, s), help)

    def define(self, variables: tuple[Var, ...], s: Stmt, at: StmtPath, added: list[str]) -> None:
        for v in variables:
            if v.name in self.defined:
                help = "a name is defined once in a function; rename it"
                self.bag.add("S101", f"{v.name} is defined a second time", place(self.function, at, s), help)
            if v.name not in self.visible:
                added.append(v.name)
            self.defined.add(v.name)
            self.visible.add(v.name)
        types: list[Type] = [] if not isinstance(s, For | While | If) else [v.type for v in variables]
        self.uses((e for t in types for e in type_exprs(t)), s, at)


def _always_returns(block: Block | None) -> bool:
    match block[-1] if block else None:
        case Return():
            return True
        case If(then=then, orelse=orelse):
            return _always_returns(then) and _always_returns(orelse)
        case Scope(body=body):
            return _always_returns(body)
    return False


def _word(s: Stmt) -> str:
    return type(s).__name__.lower()
