"""Why a function has no 2-D form: the obstacles under the roots that have none.

A root without a legal node is followed downwards to the values whose own form is missing although all that they read has one; for each of
them stands the reason that a rule recorded when its side condition failed.
"""

from __future__ import annotations

from collections.abc import Mapping

from egraph_rules import forms
from egraph_rules.graph import Graph
from extract.choice import Choice, carriers
from extract.problem import Problem
from pypto_ir.diagnostics import Diagnostic, Place, declare
from pypto_ir.linear import provably_equal
from pypto_ir.ops.registry import ShapeRule, dims_text, find_op, type_of
from pypto_ir.stmt import Assign, Call, Stmt, tuple_items, uses, walk
from pypto_ir.text import expr_text
from pypto_ir.types import Memory, TileType
from pypto_ir.verify.places import statement_text

declare(
    L101="the valid region of a tile is no run of rows, so no 2-D tile holds it",
    L102="an operand is repeated along an outer axis, which no 2-D op does",
    L103="a store whose region is no box of its target",
    L104="an op has no 2-D form of its N-D tiles",
    L105="a tile of rank above 2 comes from outside and cannot be made 2-D",
    L108="a tile in L1 is transposed, which no unit does there",
    L109="what a statement reads has a 2-D form, but none where it is read",
    L107="a tile in L1 would have to be put together there, and nothing copies from L1 to L1",
)


def obstacles(graph: Graph, choice: Choice) -> list[Diagnostic]:
    """One diagnostic for each value and store that stands in the way, in program order."""
    legal = choice.options
    found = _blamed(graph, legal, legal) or _blamed(graph, legal, {**_handed_on(graph), **legal}) or _given(graph, legal)
    found = found or _read(graph, legal)
    if not found:
        names = ", ".join(n for n in graph.encoded.demanded if not _formed(graph, legal, n)) or "a store"
        found.append(Diagnostic("L104", f"{names} has no 2-D form", Place(function=graph.encoded.function.name)))
    return found


def too_late(asked: Problem) -> list[Diagnostic]:
    """One diagnostic for each statement that reads what no candidate provides where it stands, in program order."""
    function, order = asked.graph.encoded.function, asked.regions
    places = {(d.region, d.position) for d in asked.roots if not asked.servers(d)}
    found = []
    for s in walk(function.body) if places else ():
        if (order.region[id(s)], order.position[id(s)]) in places:
            names = ", ".join(dict.fromkeys(v.name for v in uses(s) if isinstance(v.type, TileType))) or "what it reads"
            message = f"{names} has a 2-D form, but none here: it would be loaded from a tensor that was written in between"
            help = "load the part that is read here before that write, or behind it"
            found.append(Diagnostic("L109", message, Place(function=function.name, statement=statement_text(s), loc=s.loc), help))
    return found


def _blamed(graph: Graph, legal: Mapping[int, object], hoped: Mapping[int, object]) -> list[Diagnostic]:
    """The stores without a form although what they store has one, and the values although all that they read has or may have one. A
    store that asks for an accumulator under other pages is why that has no such form, not the op that made it."""
    found: list[Diagnostic] = []
    blamed: set[str] = set()
    for s in reversed([*walk(graph.encoded.function.body)]):
        number = graph.encoded.stores.get(id(s))
        if number is not None and graph.writes[number] not in legal:
            splits = _splits(graph, number)
            if splits or all(_formed(graph, legal, v.name) for v in uses(s)):
                found.append(_store(graph, number, s))
                blamed |= {v.name for v in uses(s) if splits}
        elif isinstance(s, Assign) and s.targets[0].name not in blamed:
            found.extend(_value(graph, hoped, s))
    return found[::-1]


def _splits(graph: Graph, number: int) -> str | None:
    """How the box of a store divides the pages of an accumulator otherwise, or None."""
    entry = graph.tables.stores[number]
    box = tuple_items(entry.call.args[3]) if len(entry.call.args) > 3 else None
    if box is None or entry.tile.memory is not Memory.ACC or entry.tile.rank <= 2 or provably_equal(box[-2], rows := entry.tile.valid[-2]):
        return None
    return f"a box {dims_text(box)} divides the {expr_text(rows)} rows of a page of an accumulator, which is drained a page at a time"


def _read(graph: Graph, legal: Mapping[int, object]) -> list[Diagnostic]:
    """The statements that read a cell of a tile whose rows are not at their places in one 2-D tile."""
    found = []
    for s in walk(graph.encoded.function.body):
        if not isinstance(s, Assign):
            continue
        for v in uses(s):
            if v.name not in graph.encoded.demanded:
                continue
            number = graph.encoded.numbers[v.name]
            t = graph.encoded.types[number]
            if graph.flat[number] not in legal and not forms.rows_prefix(t):
                op = s.value.op if isinstance(s.value, Call) else "this value"
                found.append(_gaps(op, v.name, t, _place(graph, s)))
    return found


def _handed_on(graph: Graph) -> dict[int, object]:
    """The classes of carried tiles and results, which have no form only because what they are handed has none."""
    leaves = [leaf.name for leaf in graph.tables.leaves.items if leaf.handover is not None]
    classes = [graph.flat.get(graph.encoded.numbers[name]) for name in leaves]
    return {c: () for c in classes if c is not None}


def _given(graph: Graph, legal: Mapping[int, object]) -> list[Diagnostic]:
    """Tiles from outside that have no 2-D form: parameters."""
    function = graph.encoded.function
    return [
        Diagnostic(
            "L105",
            f"the parameter {p.var.name} is a tile {dims_text(p.var.type.shape)}, whose form is given: a function keeps the types of its "
            "parameters, and in a 2-D program no op may take a tile of rank above 2, not even a reshape",
            Place(function=function.name, statement=f"parameter {p.var.name}"),
            f"pass it with rank 2, as {dims_text(forms.flat_type(p.var.type).shape)}",
        )
        for p in function.params
        if isinstance(p.var.type, TileType) and not _formed(graph, legal, p.var.name)
    ]


def _formed(graph: Graph, legal: Mapping[int, object], name: str) -> bool:
    """True where a value has a legal form of some kind, or is no tile, or nobody asked for its flat form."""
    number = graph.encoded.numbers.get(name)
    if number is None or number not in graph.flat:
        return True
    return any(classes.get(number) in legal for classes in carriers(graph).values())


def _place(graph: Graph, s: Stmt) -> Place:
    return Place(function=graph.encoded.function.name, statement=statement_text(s), loc=s.loc)


def _store(graph: Graph, number: int, s: Stmt) -> Diagnostic:
    entry = graph.tables.stores[number]
    target = entry.call.args[2]
    reason = entry.refusal or _splits(graph, number) or "the stored tile has no 2-D form"
    return Diagnostic(
        "L103",
        f"{reason} (tile {dims_text(entry.tile.valid)} into {getattr(target, 'name', 'the tensor')})",
        _place(graph, s),
        "store one whole axis at a time in a loop, or reshape the destination",
    )


def _value(graph: Graph, legal: Mapping[int, object], s: Assign) -> list[Diagnostic]:
    name = s.target.name
    if _formed(graph, legal, name) or not all(_formed(graph, legal, v.name) for v in uses(s)):
        return []
    number = graph.encoded.numbers[name]
    op = s.value.op if isinstance(s.value, Call) else "this value"
    reasons = graph.obstacles.get(graph.values[number], ())
    operands = {
        v.name: graph.obstacles.get(graph.values[graph.encoded.numbers[v.name]], ()) for v in uses(s) if v.name in graph.encoded.numbers
    }
    t = graph.encoded.types[number]
    place = _place(graph, s)
    if "given" in reasons:
        return [Diagnostic("L105", f"{name} is a tile {dims_text(t.shape)} that is given", place, "pass it with rank 2")]
    # pages that are cut alike could be read one by one, if a view could start there
    unaligned = _unaligned(s.value) if "unaligned" in reasons and isinstance(s.value, Call) else None
    if unaligned is not None and forms.even_pages(t):
        return [Diagnostic("L104", unaligned, place, _advice(op))]
    if t.memory is Memory.MAT and (copied := _copied(op, name, t, {v.name for v in uses(s)}, place)):
        return [copied]
    if "gaps" in reasons or not forms.rows_prefix(t):
        return [_gaps(op, name, t, place)]
    for operand, why in operands.items():
        u = graph.encoded.types[graph.encoded.numbers[operand]]
        if "gaps" in why or not forms.rows_prefix(u):
            return [_gaps(op, operand, u, place)]
        if "repeats" in why:
            return [
                Diagnostic(
                    "L102",
                    f"{op}: operand {operand} {dims_text(u.shape)} is repeated along an outer axis of the result {dims_text(t.shape)}; "
                    "2-D ops repeat single rows and single columns only",
                    place,
                    "apply the op to one page at a time, or expand the operand first",
                )
            ]
    message = f"{op} on N-D tiles is not lowered: {name} {dims_text(t.shape)} has no 2-D form"
    reason = unaligned or (_pages_unaligned(s.value) if isinstance(s.value, Call) else None)
    return [Diagnostic("L104", reason or message, place, _advice(op))]


def _unaligned(call: Call) -> str | None:
    """What keeps a window of an N-D tile from being read or written piece by piece, or None."""
    target, window = type_of(call.args[0]), type_of(call.args[1])
    box = window.shape if isinstance(window, TileType) else tuple_items(call.args[1])
    if not isinstance(target, TileType) or box is None:
        return None
    what = "writes" if call.op == "tile.assemble" else "reads"
    of = f"{'into' if what == 'writes' else 'of'} a {target.rank}D tile {dims_text(target.shape)}"
    return (
        f"{call.op} {what} a {dims_text(box)} region {of}, which does not collapse to a contiguous row band, and its rows in the pages "
        f"start at bytes that are no multiple of {forms.VIEW_BYTES}, where no view can start"
    )


def _copied(op: str, name: str, t: TileType, sources: set[str], place: Place) -> Diagnostic | None:
    """A tile in L1 that would have to be put together or transposed there, or None."""
    if op == "tile.transpose":
        return Diagnostic(
            "L108",
            f"{op}: {name} {dims_text(t.shape)} is transposed in L1, which no unit does, and a view of its last two axes swapped is not "
            "all that is read of it",
            place,
            "transpose it in Vec (UB), or give products a tile.transpose_view of a fully valid tile of their own",
        )
    if op not in ("tile.assemble", "tile.reshape", "tile.slice", "tile.transpose_view"):
        return None
    return Diagnostic(
        "L107",
        f"{op}: {name} {dims_text(t.shape)} would have to be put together in L1 from parts of {', '.join(sorted(sources))}, and nothing "
        "copies from L1 to L1",
        place,
        "load what is multiplied as one tile, from a tensor in which its rows are one run, or keep its pages apart and feed them to "
        "batched products",
    )


def _pages_unaligned(call: Call) -> str | None:
    """What keeps the pages of a tile from being written one by one into another tile, or None."""
    source = type_of(call.args[1]) if call.op == "tile.assemble" and len(call.args) > 1 else None
    shape = source.static_shape if isinstance(source, TileType) else None
    if not isinstance(source, TileType) or shape is None or forms.pages(shape) == 1:
        return None
    size = shape[-2] * shape[-1] * source.dtype.bytes
    if size % forms.VIEW_BYTES == 0:
        return None
    return (
        f"{call.op} writes the pages of a tile {dims_text(source.shape)} apart from one another, and a page of it is {size} bytes: the "
        f"next one starts at no multiple of {forms.VIEW_BYTES}, where no view can start"
    )


def _gaps(op: str, name: str, t: TileType, place: Place) -> Diagnostic:
    return Diagnostic(
        "L101",
        f"{op}: the valid region {dims_text(t.valid)} of {name} {dims_text(t.shape)} does not collapse to a contiguous row band: every "
        "dimension below the outermost partial one must be fully valid",
        place,
        "process one page at a time, or make the inner dimensions fully valid (fillpad)",
    )


def _advice(op: str) -> str:
    match op:
        case "tile.assemble" | "tile.slice":
            return (
                "let the region start at a multiple of 32 bytes in every page (pad the last dim), or make it a contiguous row band: every "
                "dimension below the outermost partial one in full, one contiguous page per iteration"
            )
        case "tile.transpose":
            return (
                "rows that change places must be fully valid and whole 32-byte blocks; "
                "reshape the tile so the transposed axes are the last two of a rank-2 tile"
            )
    declared = find_op(op)
    if declared is not None and declared.shape is ShapeRule.COL_REDUCE:
        return (
            "axis 0 is reduced: pages must be whole 32-byte blocks, valid in full or not at all, or have one valid region each, the same "
            "for all of them; pad them, or write the loop over the pages out"
        )
    return "write the batch loop out, one 2-D tile per page"
