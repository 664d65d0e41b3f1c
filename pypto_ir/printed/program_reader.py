"""Printed programs to programs (`spec/tile_ir.md` section 8): `read_printed(text, "13_before.py")`.

Reading has three steps: text to syntax tree (nothing is executed), signatures of all functions, then bodies.
Everything that is wrong is collected, each finding with line, column, the source line and a caret. Where an
annotation disagrees with a type rule the annotation is believed and a warning shows both.
"""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from dataclasses import replace

from pypto_ir.collection import collector_paused
from pypto_ir.diagnostics import Diagnostic, declare
from pypto_ir.expr import Var
from pypto_ir.printed.comments import Comments
from pypto_ir.printed.exprs_reader import Bare, Exprs, attribute, shown
from pypto_ir.printed.literals_reader import Literals
from pypto_ir.printed.places import Printed
from pypto_ir.printed.reading import POISON, Bad, Enough, Names, Reading
from pypto_ir.printed.source import Source
from pypto_ir.printed.stmts_reader import Statements
from pypto_ir.printed.tuples import joined
from pypto_ir.printed.types_reader import Annotation, Types
from pypto_ir.printed.words import IMPLIED, OF_ATTRIBUTE, TAKEN
from pypto_ir.stmt import FUNCTION_KINDS, Function, Param, Program
from pypto_ir.types import INDEX, TupleType, Type

declare(
    P101="the text holds no program, or more than one",
    P102="a program holds something else than functions",
    P103="a function is defined twice",
    P104="the decorator of a function is malformed",
    P105="a parameter is malformed",
)

#: lines of the head that keep what the printed form has no place for
NOTE = re.compile(r"# pypto-eqsat\.(target|range|verbatim): *(.*)")
_RANGE = re.compile(r"([A-Za-z_]\w*)\.([A-Za-z_]\w*) = (-?\d{1,20})\.\.(-?\d{1,20})\Z")


def read_text(text: str, file: str | None = None, warnings: list[Diagnostic] | None = None) -> Program:
    """The program of a printed text. `file` names it in diagnostics; warnings are added to `warnings`. Raises
    `Refused` with every error found."""
    printed = read_printed(text, file)
    if warnings is not None:
        warnings.extend(printed.warnings)
    return printed.program


def read_printed(text: str, file: str | None = None) -> Printed:
    """The program of a printed text with its warnings and the places of its statements. Raises `Refused`."""
    source = Source(text, file)
    program = Program()
    with collector_paused():
        tree = source.parse()
        r = Reading(source)
        reader = _Programs(r)
        with suppress(Bad, Enough):
            program = reader.program(tree)
    r.refuse_if_any()
    return Printed(program, source, tuple(r.warnings), reader.lines)


class _Programs:
    """Reads a whole program."""

    def __init__(self, r: Reading) -> None:
        self.r = r
        self.dynamic: dict[str, Var] = {}  # as the text spells them
        self.constants: dict[str, Bare | bool] = {}
        self.lines: dict[int, tuple[int, int]] = {}
        self.shared: dict[str, Annotation] = {}
        self.target: str | None = None
        self.ranges: dict[tuple[str, str], tuple[int, int]] = {}
        self.verbatim: set[str] = set()

    def program(self, tree: ast.Module) -> Program:
        classes = self._module(tree)
        if len(classes) != 1:
            where: ast.AST | int = classes[1] if classes else 1
            found = f"found {len(classes)} classes decorated with @pl.program, allowed is one"
            self.r.fail("P101", where, found)
        node = classes[0]
        self._notes(node.lineno)
        if node.bases or node.keywords:
            self.r.report("P101", node, "the class of a program has no bases")
        nodes: list[ast.FunctionDef] = []
        for item in node.body:
            match item:
                case ast.FunctionDef():
                    nodes.append(item)
                case ast.Pass() | ast.Expr(value=ast.Constant(value=str())):
                    pass
                case _:
                    self.r.report("P102", item, f"found {shown(item)}, a program holds functions")
        signatures: dict[str, Function] = {}
        known: list[tuple[ast.FunctionDef, Function]] = []
        for item in nodes:
            with suppress(Bad):
                f = self._signature(item)
                if f.name in signatures:
                    self.r.report("P103", item, f"the function {f.name} is defined before")
                signatures.setdefault(f.name, f)
                known.append((item, f))
        comments = Comments(self.r)
        functions = []
        for item, f in known:
            with suppress(Bad):
                functions.append(self._function(item, f, signatures, comments))
        if known:
            comments.skip_to(2**31, known[-1][0].col_offset)
        name = "program" if node.name == "Program" else node.name
        dynamic = tuple(dict.fromkeys(var.name for var in self.dynamic.values()))
        return Program(name, tuple(functions), self.target, dynamic)

    # ---- the module ----------------------------------------------------------------------------------------

    def _module(self, tree: ast.Module) -> list[ast.ClassDef]:
        classes: list[ast.ClassDef] = []
        for node in tree.body:
            match node:
                case ast.Import() | ast.ImportFrom():
                    pass
                case ast.Expr(value=ast.Constant(value=str())):
                    pass
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    with suppress(Bad):
                        self._constant(name, value)
                case ast.ClassDef(decorator_list=decorators):
                    if any(_is_program(d) for d in decorators):
                        classes.append(node)
                    else:
                        self.r.report("P102", node, f"the class {node.name} is not decorated with @pl.program")
                case _:
                    self.r.report("P102", node, f"found {shown(node)} outside of the program")
        return classes

    def _constant(self, name: str, node: ast.expr) -> None:
        """`M = pl.dynamic("M")`, or a number that functions may use."""
        match node:
            case ast.Call(func=func, args=[ast.Constant(value=str() as dim)]) if attribute(func) == (
                "pl",
                "dynamic",
            ):
                if not dim.isidentifier() or not dim.isascii():
                    self.r.fail("P102", node, f"{shown(node.args[0])} cannot be the name of a dim")
                self.dynamic[name] = Var(dim, INDEX)
                return
        exprs = Exprs(self.r, Names(self.r, (), frozenset), self.constants)
        value = exprs.value(node, 0)
        plain = getattr(value, "value", None) if not isinstance(value, int | float) else value
        if not isinstance(plain, int | float | bool):
            self.r.fail("P102", node, f"found {shown(node)}, allowed are pl.dynamic(..) and numbers")
        self.constants[name] = plain

    def _notes(self, end: int) -> None:
        """The notes of our own writer in the head of the text."""
        for number in range(1, end):
            found = NOTE.match(self.r.source.line(number))
            if found is None:
                continue
            match found[1]:
                case "target":
                    self.target = self._target(found[2], number)
                case "verbatim":
                    self.verbatim.add(found[2])
                case _:
                    bounds = _RANGE.match(found[2])
                    if bounds is None:
                        self.r.report("P105", number, "allowed is `function.param = low..high`")
                    else:
                        self.ranges[bounds[1], bounds[2]] = int(bounds[3]), int(bounds[4])

    def _target(self, word: str, line: int) -> str | None:
        from pypto_ir.json_reader import TARGETS

        if word not in TARGETS:
            self.r.report("P102", line, f"the target {word[:40]} is not known; known: {', '.join(TARGETS)}")
            return None
        return word

    # ---- functions -----------------------------------------------------------------------------------------

    def _signature(self, node: ast.FunctionDef) -> Function:
        self.r.function = node.name
        kind, level, role, rest = self._decorator(node)
        implied = IMPLIED.get(kind, (None, None))
        level = None if level == implied[0] else level
        role = None if role == implied[1] else role
        f = Function(node.name, kind=kind, level=level, role=role, **rest)  # type: ignore[arg-type]
        names = self._names(node)
        exprs = Exprs(self.r, names, self.constants)
        types = Types(exprs, self.shared)
        a = node.args
        if a.vararg or a.kwarg or a.kwonlyargs or a.defaults or a.posonlyargs:
            self.r.fail("P105", node, "parameters are plain: no defaults, no `*`")
        params = a.args[1:] if a.args and a.args[0].arg == "self" and a.args[0].annotation is None else a.args
        result = []
        for param in params:
            with suppress(Bad):
                result.append(self._param(param, types, names, node.name))
        return replace(f, params=tuple(result), returns=self._returns(node.returns, types))

    def _names(self, node: ast.FunctionDef) -> Names:
        spelled: list[frozenset[str]] = []

        def names() -> frozenset[str]:
            if not spelled:
                loaded = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                spelled.append(frozenset(loaded | {a.arg for a in node.args.args}))
            return spelled[0]

        result = Names(self.r, self.dynamic.values(), names)
        for name, var in self.dynamic.items():
            result.visible[name] = var
        result.taken.update(("self", "pl", "pld"))
        return result

    def _param(self, param: ast.arg, types: Types, names: Names, function: str) -> Param:
        node = param.annotation
        if node is None:
            self.r.fail("P105", param, f"the parameter {param.arg} has no type", f"write {param.arg}: pl.Scalar[..]")
        direction = "In"
        if isinstance(node, ast.Subscript):
            path = attribute(node.value)
            if path in (("pl", "Out"), ("pl", "InOut"), ("pl", "In")):
                direction, node = path[1], node.slice
        try:
            t = types.type(node)
        except Bad:
            names.define(param.arg, POISON)
            raise
        var = names.define(param.arg, t)
        return Param(var, direction, self.ranges.get((function, var.name)))

    def _returns(self, node: ast.expr | None, types: Types) -> tuple[Type, ...]:
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            return ()
        t = types.type(node)
        plain = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
        return t.items if plain and isinstance(t, TupleType) else (t,)

    def _decorator(self, node: ast.FunctionDef) -> tuple[str, str | None, str | None, dict[str, object]]:
        kind = "Opaque"
        words: dict[str, str | None] = {"level": None, "role": None}
        rest: dict[str, object] = {}
        found = False
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            if attribute(call.func if call else decorator) != ("pl", "function"):
                self.r.fail("P104", decorator, f"found {shown(decorator)}, allowed is @pl.function")
            found = True
            for k in call.keywords if call else ():
                path = attribute(k.value)
                match k.arg, k.value:
                    case "type", _ if path and path[:2] == ("pl", "FunctionType") and path[-1] in FUNCTION_KINDS:
                        kind = path[-1]
                    case ("level" | "role") as word, _ if path and path[:2] == ("pl", word.capitalize()):
                        words[word] = path[-1]
                    case "auto_scope", ast.Constant(value=bool() as flag):
                        rest["auto_scope"] = None if flag else False
                    case "external_source", ast.Constant(value=str() as text):
                        rest["external_source"] = text
                    case "attrs", _:
                        exprs = Exprs(self.r, Names(self.r, (), frozenset), self.constants)
                        rest["attrs"] = Literals(exprs).record(k.value, OF_ATTRIBUTE)
                    case _:
                        self.r.fail(
                            "P104",
                            k.value,
                            f"found {k.arg}={shown(k.value)}, which @pl.function does not take",
                        )
        if not found:
            self.r.fail("P104", node, f"the function {node.name} is not decorated with @pl.function")
        return kind, words["level"], words["role"], rest

    def _function(self, node: ast.FunctionDef, f: Function, functions: dict[str, Function], comments: Comments) -> Function:
        self.r.function = f.name
        comments.skip_to(node.lineno + 1, node.col_offset)
        nodes = node.body
        names = self._names(node)
        for param in f.params:
            names.taken.add(param.var.name)
        spelled = node.args.args[len(node.args.args) - len(f.params) :]
        for argument, param in zip(spelled, f.params, strict=True):
            names.bind(argument.arg, param.var)
        s = Statements(self.r, names, self.constants, functions, f, self.shared, comments, self.lines)
        attrs = f.attrs
        prologue = _prologue(nodes[0])
        if prologue is not None:
            attrs = (*attrs, *s.calls.literals.record(prologue, OF_ATTRIBUTE))
            nodes = nodes[1:]
        if self._is_verbatim(f, nodes):
            comments.skip_to((node.end_lineno or node.lineno) + 1, 2**31)
            result = replace(f, attrs=attrs, verbatim=self._text(f, nodes))
        else:
            s.sugar.prepare((a.arg for a in node.args.args), nodes)
            result = replace(f, attrs=attrs, body=s.body(nodes) if nodes else ())
            comments.end_before((node.end_lineno or node.lineno) + 1)
            result = joined(result, TAKEN | {var.name for var in self.dynamic.values()}, self.lines)
        self.lines[id(result)] = (node.lineno, node.col_offset)
        return result

    def _is_verbatim(self, f: Function, nodes: list[ast.stmt]) -> bool:
        if len(nodes) == 1 and _is_dots(nodes[0]):
            return True
        level, role = f.level, f.role
        return (level == "HOST" and role == "SubWorker") or f.name in self.verbatim

    def _text(self, f: Function, nodes: list[ast.stmt]) -> str | None:
        """The text of a body that is no Tile IR, without its indent."""
        if not nodes or (f.external_source is not None and _is_dots(nodes[0])):
            return None
        first, indent = nodes[0], nodes[0].col_offset
        lines = self.r.source.lines(first.lineno, nodes[-1].end_lineno or first.lineno)
        if lines[0][:indent].strip():  # a body beside its `def`, as formatters write `...`
            return "\n".join([lines[0].encode()[indent:].decode(), *lines[1:]])
        return "\n".join(line[indent:] if not line[:indent].strip() else line for line in lines)


def _prologue(node: ast.stmt) -> ast.expr | None:
    """The attributes that `pl.func_attr({..})` gives, where a body begins with it."""
    match node:
        case ast.Expr(value=ast.Call(func=func, args=[attrs], keywords=[])) if attribute(func) == (
            "pl",
            "func_attr",
        ):
            return attrs
    return None


def _is_dots(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...


def _is_program(node: ast.expr) -> bool:
    return attribute(node.func if isinstance(node, ast.Call) else node) == ("pl", "program")


__all__ = ["Printed", "read_printed", "read_text"]
