"""The tests of rules notice wrong rules: with a condition dropped or a term changed, some program is caught.

Caught means: two shapes meet in one class, the type check of the choice refuses nodes that it took before, or
some alternative is no legal 2-D program that does what the input does. Where two rules guard one thing, both
guards are dropped.
"""

from __future__ import annotations

from functools import cache
from itertools import chain

import pytest
from alternatives import alternatives, difference, refused_options, rules_changed
from drawing import instances
from test_rules import NEAR_MISSES, PROGRAMS

from egraph_rules.catalogue import rule
from egraph_rules.engine import UnsoundRule, rule_text
from pypto_ir.ops.registry import OpError
from pypto_ir.stmt import Function

#: what is changed: part of a rule, text in it, text in its place
Edit = tuple[str, str, str]

#: axis 0 as rows of a tile of which all is made valid
STACKED = "(Reshape2 (Op2 o (Data (Flat x) (Nil))) w)"
MUTANTS: dict[str, tuple[str, tuple[Edit, ...], tuple[str, ...]]] = {
    # label: how it is caught, the edits, the rules whose programs are tried
    "an N-D tile is its flat form": (
        "shape",
        (("flat.identity", "(= s (collapsed s))", ""),),
        ("flat.identity",),
    ),
    "tiles with gaps are flat": (
        "difference",
        (("flat.load", "(rows-prefix x)", ""), ("flat.args.data", "(rows-prefix y)", "")),
        ("flat.args.data",),
    ),
    "any op is flat": ("types", (("flat.op", "(commutes-flat i)", ""),), ("flat.op",)),
    "any op is its own machine op": ("types", (("flat.plain", "(plain x)", ""),), ("flat.op",)),
    "operands may have other rows": (
        "types",
        (("flat.args.data", "(= n (lead (shape y)))", ""),),
        ("flat.args.data",),
    ),
    "every operand is one row": (
        "types",
        (("flat.args.one-row", "(= 1 (lead (shape y)))", ""),),
        ("flat.args.data",),
    ),
    "row scalars may repeat": (
        "types",
        (("flat.args.row-scalar", "(= n (lead (shape y)))", ""),),
        ("flat.args.row-scalar",),
    ),
    "every page takes the first row": (
        "difference",
        (("flat.args.col-vector", "(= 1 (lead (shape y)))", ""),),
        ("flat.args.col-vector",),
    ),
    "every fill is the first one": (
        "difference",
        (("flat.full", "(Full2 i c)", "(Full2 0 c)"),),
        ("flat.full",),
    ),
    "a reshape is its operand": (
        "shape",
        (("reshape.back", "(= t (shape x)) (whole x) (= k (kind x)) (= k (kind y))", ""),),
        ("reshape.reshape",),
    ),
    "a reshape keeps no layout": (
        "types",
        (("reshape.same", "(= k (kind x)) (= k (kind y))", ""),),
        ("reshape.same",),
    ),
    "the outer reshape is forgotten": (
        "shape",
        (("reshape.reshape", "(union y (Reshape2 x t))", "(union y z)"),),
        ("reshape.reshape",),
    ),
    "scattered boxes are bands": ("difference", (("flat.assemble", "(band w)", ""),), ("flat.assemble",)),
    "scattered windows are bands": ("difference", (("flat.slice", "(band w)", ""),), ("flat.slice",)),
    "rows and columns of an assemble swapped": (
        "types",
        (("flat.assemble", "(Flat x) r c)", "(Flat x) c r)"),),
        ("flat.assemble",),
    ),
    "rows and columns of a slice swapped": (
        "types",
        (("flat.slice", "(Flat x) d r c)", "(Flat x) d c r)"),),
        ("flat.slice",),
    ),
    "a store into no box": ("difference", (("store.flat", "(box i)", ""),), ("store.flat",)),
    "pages of uneven regions": (
        "difference",
        (("store.pages", "(even-pages x)", ""),),
        ("store.pages",),
    ),
    "stores by pages into tensors of another rank": (
        "difference",
        (("store.pages", "(store-pages i)", ""),),
        ("store.flat",),
    ),
    "all pages are the first": ("difference", (("pages.one", "(= s (page (shape x)))", ""),), ("pages.one",)),
    "any op is done by pages": ("difference", (("pages.op", "(commutes-pages i)", ""),), ("flat.op",)),
    "pages of operands are not spread": (
        "difference",
        (("pages.args.data", "(Spread (Pages y) u s)", "(Pages y)"),),
        ("spread.same",),
    ),
    "pages are spread the other way round": (
        "difference",
        (("pages.args.data", "(Spread (Pages y) u s)", "(Spread (Pages y) s u)"),),
        ("spread.same",),
    ),
    "batches of other shapes are equal": (
        "difference",
        (("spread.same", "(= b (batch t))", ""),),
        ("spread.same",),
    ),
    "regrouped rows are pages": (
        "types",
        (("pages.reshape", "(= p (page (shape x)))", ""),),
        ("pages.reshape", "reshape.reshape"),
    ),
    "pages of target and source swapped": (
        "difference",
        (("pages.assemble", "(Pages t) (Pages x) m", "(Pages x) (Pages t) m"),),
        ("pages.assemble",),
    ),
    "only the outer window counts": (
        "difference",
        (("slice.slice", "(Plus r1 r2) (Plus c1 c2)", "r2 c2"),),
        ("slice.slice",),
    ),
    "rows and columns of windows mixed": (
        "difference",
        (("slice.slice", "(Plus r1 r2) (Plus c1 c2)", "(Plus r1 c2) (Plus c1 r2)"),),
        ("slice.slice",),
    ),
    "any window is the tile": (
        "types",
        (("slice.whole", "(= k (kind x)) (= k (kind y))", ""),),
        ("slice.whole",),
    ),
    "a window of another type is what was written": (
        "types",
        (("slice.assemble", "(= n (width x)) (= n (width z))", ""),),
        ("slice.assemble",),
    ),
    "a window that begins before what was written is in it": ("types", (("slice.assemble", "(<= mx m)", ""),), ("slice.assemble",)),
    "a window in what was written begins where that does": (
        "difference",
        (("slice.assemble", "(- m mx)", "0"),),
        ("slice.assemble",),
    ),
    "whole pages are those of the first pages": (
        "difference",
        (("pages.slice.pages", "(Pick (Pages x) m)", "(Pages x)"),),
        ("pages.slice.pages",),
    ),
    "what was written into is fully valid": (
        "types",
        (("flat.assemble.cut", "(= o (closed y))", ""),),
        ("flat.assemble.cut",),
    ),
    "the first page goes with itself": ("difference", (("fold.next", "(slab s (- n 1))", "(slab s 0)"),), ("fold.next",)),
    "rows and columns of pieces mixed": (
        "difference",
        (("pages.slice.pieces", "p k r c", "p k c r"),),
        ("pages.slice.pieces",),
    ),
    "rows and columns of cut pieces mixed": (
        "difference",
        (("pages.slice.cut", "p k r c", "p k c r"),),
        ("pages.slice.cut",),
    ),
    "what meets a page that repeats is valid in full": (
        "types",
        (("op.opened", "(Op i (Data z (Nil)))", "z"),),
        ("op.opened",),
    ),
    "all slabs are reduced": (
        "difference",
        (("flat.first-reduce", f"(Op2 j (Data {STACKED} (Nil)))", STACKED),),
        ("flat.first-reduce",),
    ),
    "pieces may start anywhere": (
        "difference",
        (("flat.assemble.pieces", "k r c)", "k (Num 0) c)"),),
        ("flat.assemble.pieces",),
    ),
    "parts of pages are those of the first pages": (
        "difference",
        (("flat.slice.part", "(Pick (Pages x) m)", "(Pages x)"),),
        ("flat.slice.part",),
    ),
    "a part that is written makes a page taller": (
        "types",
        (("pages.assemble.part", "(= k (kind y)) (= k (kind t))", ""),),
        ("pages.assemble.part",),
    ),
    "a write at the origin is the tile": (
        "shape",
        (("assemble.whole", "(= k (kind x)) (= k (kind y))", ""),),
        ("assemble.whole",),
    ),
}


def mutated(edits: tuple[Edit, ...]) -> dict[str, str]:
    """The texts of the rule files with all edits; fails where an edit finds nothing."""
    texts: dict[str, str] = {}
    for part, old, new in edits:
        found = rule(part)
        assert found is not None, part
        text = texts.get(found.ruleset) or rule_text(found.ruleset)
        end = text.index(f':name "{part}"')
        start = text.rindex("\n(rule", 0, end)
        assert old in text[start:end], f"{part} has no {old}"
        texts[found.ruleset] = text[:start] + text[start:end].replace(old, new) + text[end:]
    return texts


@cache
def programs(name: str) -> tuple[Function, ...]:
    return (*(make() for make in NEAR_MISSES.get(name, ())), *instances(name, PROGRAMS[name])[:4])


@cache
def refused(function: Function) -> int:
    """How many nodes the type check refuses under the rules as they are."""
    with refused_options() as count:
        alternatives(function)
    return count[0]


def caught(function: Function, texts: dict[str, str]) -> set[str]:
    """How a program shows that rules are wrong."""
    usual = refused(function)
    with rules_changed(texts), refused_options() as count:
        try:
            found = alternatives(function)
        except UnsoundRule:
            return {"shape"}
        except OpError:
            return {"types"}
    result = {"types"} if count[0] > usual else set()
    if any(difference(function, made) for made in found.functions.values()):
        result.add("difference")
    return result


@pytest.mark.parametrize("label", MUTANTS)
def test_wrong_rule_is_caught(label: str) -> None:
    how, edits, names = MUTANTS[label]
    texts = mutated(edits)
    seen: set[str] = set()
    for function in chain.from_iterable(map(programs, names)):
        seen |= caught(function, texts)
        if how in seen:
            return
    pytest.fail(f"expected {how}, seen {sorted(seen) or 'nothing'}")


@pytest.mark.parametrize("name", sorted({n for _, _, names in MUTANTS.values() for n in names}))
def test_rules_as_they_are_are_not_caught(name: str) -> None:
    for function in programs(name):
        assert caught(function, {}) == set()
