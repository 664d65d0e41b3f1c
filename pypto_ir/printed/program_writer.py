"""Programs as PyPTO prints them, byte for byte (`spec/tile_ir.md` section 8): `write_text(program)`.

Functions stand in the order of their names, callees before the caller that needs them; there is no newline at
the end. What the printed form has no place for (the target, ranges of parameters) is kept in notes in the
head, such as `# pypto-eqsat.target: ascend950`, which PyPTO skips as comments.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto_ir.expr import variables
from pypto_ir.printed.exprs_writer import ExprWriter
from pypto_ir.printed.stmts_writer import StatementWriter
from pypto_ir.printed.tuples import fresh
from pypto_ir.printed.types_writer import TypeWriter
from pypto_ir.printed.values_writer import ValueWriter, quoted
from pypto_ir.printed.words import IMPLIED, OF_ATTRIBUTE, TAKEN
from pypto_ir.stmt import (
    Assign,
    Call,
    Eval,
    Function,
    FunctionCall,
    Program,
    Scope,
    Submit,
    definitions,
    own_exprs,
    walk,
)  # fmt: skip
from pypto_ir.types import type_exprs


def write_text(program: Program) -> str:
    """The canonical printed text of a program, without a newline at its end."""
    name = "Program" if program.name == "program" else program.name
    functions = ordered(program)
    lines = [
        f"# pypto.program: {name}",
        *_notes(program.target, functions),
        "import pypto.language as pl",
        "",
    ]
    needs_pld = len(lines) - 1
    used = {dim for f in program.functions for dim in _dims(f, program.dynamic)}
    dims = sorted(dim for dim in program.dynamic if dim in used)
    if dims:
        lines += [*(f'{dim} = pl.dynamic("{dim}")' for dim in dims), ""]
    lines += ["@pl.program", f"class {name}:"]
    kept: dict[int, str] = {}
    for i, f in enumerate(functions):
        _Functions(lines, kept, program.dynamic).function(f)
        if i + 1 < len(functions) and _ends_in_empty_lanes(f):
            lines.append("")
    if not functions:
        lines.append("    pass")
    text = "\n".join(lines)
    if "pld." in text:
        lines.insert(needs_pld, "import pypto.language.distributed as pld")
        text = "\n".join(lines)
    return text


def _notes(target: str | None, functions: list[Function]) -> Iterator[str]:
    """What the printed form has no place for, in lines that PyPTO skips."""
    if target is not None:
        yield f"# pypto-eqsat.target: {target}"
    for f in functions:
        for p in f.params:
            if p.range is not None:
                low, high = p.range
                yield f"# pypto-eqsat.range: {f.name}.{p.var.name} = {low}..{high}"
    for f in functions:
        if f.verbatim is not None and f.verbatim != "..." and not (f.level == "HOST" and f.role == "SubWorker"):
            yield f"# pypto-eqsat.verbatim: {f.name}"


def ordered(program: Program) -> list[Function]:
    """The functions by name, callees first; by name alone where calls form a cycle."""
    by_name = {f.name: f for f in sorted(program.functions, key=lambda f: f.name)}
    calls = {name: sorted(set(_callees(f)) & by_name.keys()) for name, f in by_name.items()}
    result: list[Function] = []
    state: dict[str, bool] = {}  # False while the callees of a function are being placed
    for root in by_name:
        stack = [root] if root not in state else []
        while stack:
            name = stack[-1]
            if name not in state:
                state[name] = False
                waiting = [c for c in calls[name] if c not in state]
                if any(state.get(c) is False and c != name for c in calls[name]) or name in calls[name]:
                    return list(by_name.values())
                stack.extend(reversed(waiting))
            else:
                stack.pop()
                if state[name] is False:
                    state[name] = True
                    result.append(by_name[name])
    return result


def _callees(f: Function) -> Iterator[str]:
    for s in walk(f.body):
        if isinstance(s, Assign | Eval) and isinstance(s.value, FunctionCall | Submit):
            yield s.value.function


def _dims(f: Function, dynamic: tuple[str, ...]) -> Iterator[str]:
    """The dynamic dims that a function uses."""
    if not dynamic:
        return
    wanted = set(dynamic)
    seen: set[int] = set()
    types = [p.var.type for p in f.params] + list(f.returns)
    for s in walk(f.body):
        types += [v.type for v in definitions(s)]
        for e in own_exprs(s):
            yield from (v.name for v in variables(e) if v.name in wanted)
    for t in types:
        if id(t) not in seen:
            seen.add(id(t))
            for e in type_exprs(t):
                yield from (v.name for v in variables(e) if v.name in wanted)


def _ends_in_empty_lanes(f: Function) -> bool:
    last = f.body[-1] if f.body else None
    return isinstance(last, Scope) and last.kind in ("spmd", "split_aiv") and last.var is not None and not last.body


class _Functions:
    """Writes one function to `lines`."""

    def __init__(self, lines: list[str], kept: dict[int, str], dynamic: tuple[str, ...]) -> None:
        self.lines, self.kept, self.dynamic = lines, kept, dynamic

    def function(self, f: Function) -> None:
        names = self._names(f)
        exprs = ExprWriter(_renamed(names))
        types = TypeWriter(exprs, self.kept)
        lines = self.lines
        lines.append(f"    @pl.function{_decorator(f)}")
        role = f.role or IMPLIED.get(f.kind, (None, None))[1]
        params = [] if role == "SubWorker" else ["self"]
        for p in f.params:
            text = types.text(p.var.type)
            shown = text if p.direction == "In" else f"pl.{p.direction}[{text}]"
            params.append(f"{exprs.names.get(p.var.name, p.var.name)}: {shown}")
        returns = [types.text(t) for t in f.returns]
        arrow = "" if not returns else f" -> {returns[0]}" if len(returns) == 1 else f" -> tuple[{', '.join(returns)}]"
        lines.append(f"    def {f.name}({', '.join(params)}){arrow}:")
        attrs = tuple((k, v) for k, v in f.attrs if not (k == "split" and v == "NONE"))
        if attrs:
            lines.append(f"        pl.func_attr({ValueWriter(exprs).record(attrs, OF_ATTRIBUTE)})")
        if f.verbatim is not None:
            lines.extend(f"        {line}" if line else "" for line in f.verbatim.split("\n"))
        elif not f.body and f.external_source is not None:
            lines.append("        ...")
        else:
            types.buffers = frozenset(_buffers(f))
            writer = StatementWriter(lines, exprs, types, lambda base: fresh(base, names))
            writer.block(f.body, "        ")

    def _names(self, f: Function) -> set[str]:
        names = {p.var.name for p in f.params} | set(self.dynamic)
        for s in walk(f.body):
            names.update([v.name for v in definitions(s)])
        return names


def _renamed(names: set[str]) -> dict[str, str]:
    """Printed names of the variables whose own names have another meaning in printed programs."""
    clashes = sorted(names & TAKEN)
    names |= TAKEN
    return {name: fresh(name, names) for name in clashes}


def _buffers(f: Function) -> Iterator[str]:
    for s in walk(f.body):
        match s:
            case Assign(targets=(var,), value=Call(op="tile.alloc")):
                yield var.name


def _decorator(f: Function) -> str:
    implied = IMPLIED.get(f.kind, (None, None))
    level, role = f.level or implied[0], f.role or implied[1]
    parts = [f"type=pl.FunctionType.{f.kind}"] if f.kind != "Opaque" else []
    if level is not None:
        parts.append(f"level=pl.Level.{level}")
    if role is not None:
        parts.append(f"role=pl.Role.{role}")
    if f.auto_scope is False:
        parts.append("auto_scope=False")
    if f.external_source is not None:
        parts.append(f"external_source={quoted(f.external_source)}")
    return f"({', '.join(parts)})" if parts else ""
