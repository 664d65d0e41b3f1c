"""Tables of what is proved of random index programs, beside upstream's prover: by width, by how the value comes about, and what upstream
accepts wrongly.

`origin(definitions, v3)` with `v3 = i * 16` is "*": the operator that makes the value, names followed to their definitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pypto_ir.expr import Binary, Cast, Const, Expr, Item, MakeTuple, Unary, Var, dtype_of, transform
from pypto_ir.stmt import Assign, Call, For, Function, FunctionCall, If, Scope, Submit, While, walk
from pypto_ir.text import expr_text
from tests.generators.index_property import Judged

#: what a name stands for: an expression, or in words what binds it
Definitions = Mapping[str, "Expr | str"]
_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "bitand": "&", "bitor": "|", "bitxor": "^", "shl": "<<", "shr": ">>",
    "pow": "**", "neg": "negation", "bitnot": "~",
}  # fmt: skip
#: an expression is told with its definitions put in as long as it is no longer than this
_LONGEST = 72


def definitions(function: Function) -> dict[str, Expr | str]:
    """What every name of a function stands for."""
    found: dict[str, Expr | str] = {p.var.name: "parameter" for p in function.params}
    for s in walk(function.body):
        match s:
            case Assign(targets=targets, value=FunctionCall() | Submit()):
                found.update((v.name, "result of a call") for v in targets)
            case Assign(targets=(target,), value=Call()):
                found[target.name] = "block or lane"
            case Assign(targets=(target,), value=value):
                found[target.name] = value  # type: ignore[assignment]
            case For(var=var, carries=carries, results=results):
                found[var.name] = "loop variable"
                found.update((c.var.name, "carried value") for c in carries)
                found.update((v.name, "result of a loop") for v in results)
            case While(carries=carries, results=results):
                found.update((c.var.name, "carried value") for c in carries)
                found.update((v.name, "result of a loop") for v in results)
            case If(results=results):
                found.update((v.name, "result of a branch") for v in results)
            case Scope(var=Var(name=name)):
                found[name] = "block or lane"
    return found


def origin(known: Definitions, e: Expr) -> str:
    """How the value of an expression comes about."""
    match e:
        case Const():
            return "constant"
        case Cast():
            return "cast"
        case Binary(op=op) | Unary(op=op):
            return _SYMBOLS.get(op, op)
        case Item(of=MakeTuple(items=items), index=i):
            return origin(known, items[i])
        case Item(of=Var(name=name), index=i) if isinstance(whole := known.get(name), MakeTuple):
            return origin(known, whole.items[i])
        case Var(name=name):
            found = known.get(name, "parameter")
            return found if isinstance(found, str) else origin(known, found)
    return "other"


def spelled(known: Definitions, e: Expr) -> str:
    """An expression with its definitions put in, as far as it stays short."""
    best = expr_text(e)
    for _ in range(8):
        e = transform(e, lambda v: d if isinstance(v, Var) and not isinstance(d := known.get(v.name, ""), str) else v)
        text = expr_text(e)
        if len(text) > _LONGEST or text == best:
            break
        best = text
    return best


@dataclass(frozen=True, slots=True, order=True)
class FalseAccept:
    """What upstream's prover accepts as a non-negative multiple of 16 and is none: `value`, as an index reads it `index`."""

    seed: int
    function: str
    dtype: str
    expression: str
    value: int
    index: int

    @property
    def reason(self) -> str:
        if self.index % 16:
            return "no multiple of 16"
        return "negative" if self.index == self.value else "unsigned, negative as an index"


def counted(judged: Iterable[tuple[Judged, Definitions]]) -> Counter[tuple[str, str]]:
    """Counts by (row, what): a row for every type and every origin."""
    counts: Counter[tuple[str, str]] = Counter()
    for j, known in judged:
        dtype = dtype_of(j.probe.expr)
        assert dtype is not None
        what = {
            "asked": True, "proved": j.proved, "upstream": j.upstream, "alone": j.proved and not j.upstream, "false": j.false_upstream,
            "true": j.true, "true here": j.true and j.proved, "true upstream": j.true and j.upstream,
        }  # fmt: skip
        for row in (dtype.value, origin(known, j.probe.expr)):
            counts.update((row, name) for name, holds in what.items() if holds)
    return counts


def table(counts: Counter[tuple[str, str]], rows: Iterable[str], of: str) -> str:
    """Rows of counts, each with what facts prove and what upstream's prover does."""
    columns = ("asked", "facts prove", "upstream proves", "facts alone", "upstream, false", "true where seen", "of these facts", "upstream")
    lines = [f"| {of} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row in rows:
        n = {what: counts[row, what] for what in ("asked", "proved", "upstream", "alone", "false", "true", "true here", "true upstream")}
        if n["asked"]:
            shares = (_share(n["true here"], n["true"]), _share(n["true upstream"], n["true"]))
            cells = (*(f"{n[k]:,}" for k in ("asked", "proved", "upstream", "alone", "false", "true")), *shares)
            lines.append(f"| {_name(row)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _name(row: str) -> str:
    return f"`{row}`".replace("|", "\\|") if row in _SYMBOLS.values() and row != "negation" else row


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({100 * part / whole:.0f} %)" if whole else ""


def accepts(found: list[FalseAccept], most: int) -> str:
    """The shortest of upstream's false accepts, one of every expression and type, and how many there are of each kind."""
    kinds = Counter((a.reason, a.dtype) for a in found)
    once: dict[tuple[str, str], FalseAccept] = {}
    for a in sorted(found, key=lambda a: (len(a.expression), a.expression, a.dtype, a.seed)):
        once.setdefault((a.dtype, a.expression), a)
    lines = ["| upstream accepts, and it is | how many | types |", "|---|---|---|"]
    for reason in sorted({a.reason for a in found}):
        types = {dtype: n for (r, dtype), n in sorted(kinds.items()) if r == reason}
        lines.append(f"| {reason} | {sum(types.values()):,} | {', '.join(f'{dtype} {n}' for dtype, n in types.items())} |")
    lines += ["", "| seed | function | type | expression | value | as an index |", "|---|---|---|---|---|---|"]
    for a in list(once.values())[:most]:
        text = a.expression.replace("|", "\\|")
        lines.append(f"| {a.seed} | {a.function} | {a.dtype} | `{text}` | {a.value} | {a.index} |")
    return "\n".join(lines)
