"""The frozen e-graph as a graph of classes and nodes, as the extractor reads it.

Only machine nodes are kept: what the program says at any rank (`Op`, `Load`) is not a choice, its carriers are. A class is a number; a
node is a constructor's name, its child classes, and its data (table numbers, shapes) in the constructor's order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from egraph_rules import forms
from egraph_rules.encode import encode
from egraph_rules.engine import Frozen, Limits, Report, engine
from egraph_rules.entries import Encoded
from egraph_rules.provenance import makers
from egraph_rules.tables import Tables
from pypto_ir.expr import Binary, Expr, index
from pypto_ir.linear import normalize
from pypto_ir.stmt import Function

#: constructors of nodes that may be chosen
MACHINE = (
    "Leaf2", "Load2", "Create2", "Full2", "Op2", "Reshape2", "Reinterpret2", "Slice2", "Assemble2", "PackRows",
    "View2", "LoadIn2", "LeafCols", "AccCols", "PageOf", "AssembleEach",
    "PiecesOf", "Pick",
    "LeafEach", "One", "RowsOf", "ColsOf", "LoadEach", "LoadInEach", "CreateEach", "FullEach", "OpEach", "WithPages", "Spread",
    "Store2", "StoreEach", "StoreBoxes", "StoreIn2", "StoreInEach",
)  # fmt: skip
_LISTS = ("Nil", "Data", "RowScalar", "ColVector", "Scratch", "FNil", "FArg")
_VALUE_SORTS = ("Val", "Fam", "Write")


@dataclass(frozen=True, slots=True)
class ENode:
    """A machine node: `children` are classes of tiles or families in operand order, `data` numbers, shapes and positions."""

    name: str
    children: tuple[int, ...]
    data: tuple[Any, ...]


@dataclass(slots=True)
class Graph:
    """Classes of machine nodes. `flat[n]` is the class of the one tile that holds value n, its flat form or, where its valid region has
    gaps, its packed form (absent where nobody asked for it), `writes[n]`
    that of store n, `families[n]` that of the pages of value n, `columns[n]` that of its pages side by side; `page_counts` says how many
    pages a family's class has, `shapes` are the shape facts, `obstacles` the recorded reasons by class of the N-D value. `makers` are
    the rules that made a node of a class, where they were noted."""

    encoded: Encoded
    classes: dict[int, list[ENode]]
    values: dict[int, int]
    flat: dict[int, int]
    writes: dict[int, int]
    families: dict[int, int]
    columns: dict[int, int]
    page_counts: dict[int, int]
    shapes: dict[int, tuple[int, ...]]
    obstacles: dict[int, tuple[str, ...]]
    report: Report = field(default_factory=Report)
    rows: int = 0
    makers: dict[tuple[int, ENode], tuple[str, ...]] = field(default_factory=dict)

    @property
    def tables(self) -> Tables:
        return self.encoded.tables

    @property
    def node_count(self) -> int:
        return sum(map(len, self.classes.values()))


def saturated(
    function: Function,
    aliased: tuple[tuple[str, str], ...] = (),
    limits: Limits | None = None,
    without: frozenset[str] = frozenset(),
    noting: bool = False,
) -> Graph:
    """Encode a function, run the rules, and give the choice graph; with `noting` also which rules made its nodes. Raises `UnsoundRule`
    where shapes contradict each other."""
    encoded, commands = encode(function, aliased)
    with engine(without, noting=MACHINE if noting else ()).session() as session:
        session.run(commands)
        report = session.saturate(limits or Limits())
        frozen = session.freeze()
    return _graph(encoded, frozen, report)


def _graph(encoded: Encoded, frozen: Frozen, report: Report) -> Graph:
    rows = frozen.rows
    lists = _operand_lists(frozen)
    positions = _positions(rows, encoded.tables)
    classes: dict[int, list[ENode]] = {}
    made_by: dict[tuple[int, ENode], tuple[str, ...]] = {}
    for name in MACHINE:
        inputs, noted = frozen.sorts[name][0], makers(rows, name)
        for args, output in rows.get(name, ()):
            node = _node(name, inputs, args, lists, positions)
            if node is not None:
                classes.setdefault(output, []).append(node)
                if args in noted:
                    made_by[(output, node)] = noted[args]
    values = {args[0]: output for args, output in rows.get("value", ())}
    carrier = {args[0]: output for args, output in rows.get("Flat", ())}
    packed = {args[0]: output for args, output in rows.get("Packed", ())}
    read = {encoded.numbers[name] for name in encoded.placed}
    shapes = {args[0]: shape for args, shape in rows.get("shape", ())}
    families = {args[0]: output for args, output in rows.get("Pages", ())}
    columns = {args[0]: output for args, output in rows.get("Cols", ())}
    counts = {family: forms.pages(shapes[c]) for c, family in families.items() if c in shapes}
    counts.update({output: forms.pages(args[2]) for args, output in rows.get("Spread", ())})
    counts.update({output: len(encoded.tables.pages[args[1]]) for args, output in rows.get("Pick", ())})
    counts.update({output: len(encoded.tables.pages[args[3]]) for args, output in rows.get("PiecesOf", ())})
    for _, output in rows.get("One", ()):
        counts.setdefault(output, 1)
    for c, nodes in classes.items():
        picked = next((child for n in nodes if n.name == "OpEach" for child in n.children if child in counts), None)
        if c not in counts and picked is not None:
            counts[c] = counts[picked]
    obstacles: dict[int, list[str]] = {}
    for (value, reason), _ in rows.get("obstacle", ()):
        obstacles.setdefault(value, []).append(reason)
    return Graph(
        encoded,
        classes,
        values,
        {number: carrier[c] if number in read else packed.get(c, carrier[c]) for number, c in values.items() if c in carrier},
        {args[0]: output for args, output in rows.get("write", ())},
        {number: families[c] for number, c in values.items() if c in families},
        {number: columns[c] for number, c in values.items() if c in columns},
        counts,
        shapes,
        {value: tuple(sorted(reasons)) for value, reasons in obstacles.items()},
        report,
        sum(map(len, rows.values())),
        made_by,
    )


def _operand_lists(frozen: Frozen) -> dict[int, tuple[int, ...]]:
    """The operands of every argument list that was taken to a carrier, by class of the list."""
    cells: dict[int, tuple[int, int]] = {}
    ends: set[int] = set()
    for name in _LISTS:
        for args, output in frozen.rows.get(name, ()):
            if not args:
                ends.add(output)
            else:
                # lists of program values share no class with lists of carriers unless they are the same tiles
                cells.setdefault(output, args)
    result: dict[int, tuple[int, ...]] = {end: () for end in ends}
    for start in cells:
        chain, current = [], start
        while current not in result and current in cells:
            chain.append(current)
            current = cells[current][1]
        tail = result.get(current)
        if tail is None:
            continue
        for cell in reversed(chain):
            tail = result[cell] = (cells[cell][0], *tail)
    return result


def _positions(rows: dict[str, list[tuple[tuple[Any, ...], Any]]], tables: Tables) -> dict[int, Expr]:
    """An expression for every class of positions: a constant where one is known."""
    found: dict[int, Expr] = {}
    for args, output in rows.get("Sym", ()):
        found[output] = tables.positions[args[0]]
    for args, output in rows.get("Num", ()):
        found[output] = index(args[0])
    sums = list(rows.get("Plus", ()))
    while sums:
        left = []
        for (a, b), output in sums:
            if output in found:
                continue
            if a in found and b in found:
                found[output] = normalize(Binary("add", found[a], found[b]))
            else:
                left.append(((a, b), output))
        if len(left) == len(sums):
            break
        sums = left
    return found


def _node(
    name: str, inputs: tuple[str, ...], args: tuple[Any, ...], lists: dict[int, tuple[int, ...]], positions: dict[int, Expr]
) -> ENode | None:
    children: list[int] = []
    data: list[Any] = []
    for sort, arg in zip(inputs, args, strict=True):
        if sort in _VALUE_SORTS:
            children.append(arg)
        elif sort in ("Args", "FArgs"):
            if arg not in lists:
                return None
            children.extend(lists[arg])
        elif sort == "Ix":
            if arg not in positions:
                return None
            data.append(positions[arg])
        else:
            data.append(arg)
    return ENode(name, tuple(children), tuple(data))
