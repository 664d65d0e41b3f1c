"""Rows of `spec/flatten.md` section 13, groups PassProperties and Spans.

A statement of the result has the position of the author's statement that it stands for, an auxiliary one that
of the statement that needed it, and a rebuilt call that of the author's call.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers import (
    Json,
    const,
    flat,
    incore,
    let,
    load,
    lowered,
    main,
    ops,
    out,
    program,
    ret,
    store,
    tensor,
)

import pypto_eqsat
from pypto_eqsat.driver import optimize
from pypto_eqsat.properties import FLATTEN, PassProperties
from pypto_ir.expr import MakeTuple, Var, index
from pypto_ir.stmt import Assign, Call, Function, Program, walk
from pypto_ir.types import INDEX, ScalarType, TupleType
from pypto_ir.verify import tile_ops_2d

# pass properties


def test_pass_properties() -> None:
    assert set(FLATTEN.required) == {"SSAForm", "IncoreTileOps", "NormalizedStmtStructure"}
    assert set(FLATTEN.produced) == {"SSAForm", "TileOps2D", "NormalizedStmtStructure"}
    assert FLATTEN.invalidated == ()


def test_pass_name() -> None:
    assert FLATTEN.name == "FlattenTileNdTo2D"


def test_pass_keeps_what_held_and_adds_what_it_makes() -> None:
    holding = ("SSAForm", "IncoreTileOps", "NormalizedStmtStructure", "NoNestedCalls")
    assert FLATTEN.missing(holding) == ()
    assert FLATTEN.missing(["SSAForm"]) == ("IncoreTileOps", "NormalizedStmtStructure")
    assert FLATTEN.after(holding) == (*holding, "TileOps2D")
    forgetful = PassProperties("P", (), ("B",), ("A",))
    assert forgetful.after(["A", "B"]) == ("B",)


def test_package_exports_its_entry_points_on_first_use() -> None:
    assert pypto_eqsat.optimize is optimize
    assert pypto_eqsat.FLATTEN is FLATTEN
    assert set(pypto_eqsat.__all__) <= set(dir(pypto_eqsat))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pypto_eqsat.nothing


def added(shape: tuple[int, ...] = (2, 3, 4)) -> Program:
    return incore(
        [tensor("x", *shape), out("out_0", *shape)],
        [
            load("t", "x", [0] * len(shape), shape),
            let("y", "tile.add", "t", "t"),
            store("o", "y", [0] * len(shape), "out_0"),
            ret("o"),
        ],
    )


def test_verifier_passes_after_flatten() -> None:
    assert tile_ops_2d(main(lowered(added()))) == []


def test_verifier_fails_on_unflatten_program() -> None:
    found = tile_ops_2d(main(added()))
    assert [d.code for d in found] == ["V101", "V104"]
    assert "tile.add produces >2D tile [2, 3, 4]" in found[0].message


def assembling() -> Program:
    return incore(
        [tensor("x", 32, 16), tensor("s", 8, 16), out("out_0", 32, 16)],
        [
            load("t", "x", [0, 0], [32, 16]),
            load("u", "s", [0, 0], [8, 16]),
            let("z", "tile.assemble", "t", "u", [16, 0]),
            store("o", "z", [0, 0], "out_0"),
            ret("o"),
        ],
    )


def with_offset(p: Program, offset: MakeTuple | Var) -> Function:
    """The only assemble of a program with another offset operand."""
    f = main(p)
    body = tuple(
        replace(s, value=replace(s.value, args=(*s.value.args[:2], offset)))
        if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op == "tile.assemble"
        else s
        for s in f.body
    )
    return replace(f, body=body)


def test_verifier_flags_nd_offset_on_2d_assemble() -> None:
    assert tile_ops_2d(main(assembling())) == []
    found = tile_ops_2d(with_offset(assembling(), MakeTuple((index(2), index(0), index(0)))))
    assert [d.code for d in found] == ["V103"]
    assert "3 elements, not 2" in found[0].message


def test_verifier_flags_non_literal_assemble_offset() -> None:
    pair = Var("at", TupleType((ScalarType(INDEX.dtype), ScalarType(INDEX.dtype))))
    found = tile_ops_2d(with_offset(assembling(), pair))
    assert [d.code for d in found] == ["V103"]
    assert "no literal tuple" in found[0].message


def test_verifier_rejects_rank_raising_reinterpret_view() -> None:
    before = incore(
        [tensor("x", 4, 8), out("out_0", 4, 1, 16, dtype="INT16")],
        [
            load("t", "x", [0, 0], [4, 8]),
            let("r", "tile.reinterpret_view", "t", [4, 1, 16], dtype="INT16"),
            store("o", "r", [0, 0, 0], "out_0"),
            ret("o"),
        ],
    )
    found = tile_ops_2d(main(before))
    assert [d.code for d in found] == ["V101"]
    assert "tile.reinterpret_view produces >2D tile [4, 1, 16]" in found[0].message


# spans


def at(line: int, statement: Json) -> Json:
    return {**statement, "loc": f"kernel.py:{line}:4"}


def positions(p: Program) -> dict[str, str | None]:
    """Source positions by the name that a statement assigns."""
    return {s.target.name: s.loc for s in walk(main(p).body) if isinstance(s, Assign)}


def spanned(lines: list[Json], *params: Json) -> Program:
    return incore([*params], [at(10 + i, s) for i, s in enumerate(lines)])


def test_rebuilt_ops_keep_their_statement_span() -> None:
    before = spanned(
        [
            load("t", "x", [0, 0, 0], [2, 3, 4]),
            let("c", "tile.full", [2, 3, 4], const(1.0), dtype="FP32"),
            let("y", "tile.add", "t", "c"),
            let("r", "tile.reshape", "y", [3, 2, 4]),
            let("e", "tile.exp", "r"),
            store("o", "e", [0, 0, 0], "out_0"),
            ret("o"),
        ],
        tensor("x", 2, 3, 4),
        out("out_0", 3, 2, 4),
    )
    after = lowered(before)
    given = positions(before)
    assert positions(after) == {name: given[name] for name in ("t", "c", "y", "e", "o")}
    assert main(after).body[-1].loc == "kernel.py:16:4"


def test_rebuilt_op_keeps_the_rhs_call_span_not_the_statement_span() -> None:
    f = main(
        spanned(
            [
                load("t", "x", [0, 0, 0], [2, 3, 4]),
                let("y", "tile.exp", "t"),
                store("o", "y", [0, 0, 0], "out_0"),
                ret("o"),
            ],
            tensor("x", 2, 3, 4),
            out("out_0", 2, 3, 4),
        )
    )
    body = tuple(
        replace(s, value=replace(s.value, loc=f"{s.loc}:call")) if isinstance(s, Assign) and isinstance(s.value, Call) else s
        for s in f.body
    )
    before = Program("P", (replace(f, body=body),), "ascend910b")
    after = lowered(before)
    spans = [(s.loc, s.value.loc) for s in main(after).body if isinstance(s, Assign) and isinstance(s.value, Call)]
    assert spans == [(f"kernel.py:{n}:4", f"kernel.py:{n}:4:call") for n in (10, 11, 12)]


def test_auxiliary_synthesized_statements_keep_the_assignment_span() -> None:
    """The scratch tile that a transpose gets stands at the transpose."""
    before = spanned(
        [
            load("t", "x", [0, 0], [8, 16]),
            let("y", "tile.transpose", "t", 0, 1),
            store("o", "y", [0, 0], "out_0"),
            ret("o"),
        ],
        tensor("x", 8, 16),
        out("out_0", 16, 8),
    )
    after = lowered(before, dearer=True)
    assert ops(after) == ["load", "create", "transpose", "store"]
    spans = [s.loc for s in main(after).body]
    assert spans == [f"kernel.py:{n}:4" for n in (10, 11, 11, 12, 13)]
    assert {name for name in positions(after)} > {"t", "y", "o"}


def test_delegated_lowering_statements_keep_the_assignment_span() -> None:
    """Every op that a page-wise lowering makes stands at a statement of the author's."""
    before = spanned(
        [
            load("t", "x", [0, 0, 0], [2, 8, 16]),
            load("g", "w", [0, 0, 0], [1, 8, 16]),
            let("y", "tile.add", "t", "g"),
            store("o", "y", [0, 0, 0], "out_0"),
            ret("o"),
        ],
        tensor("x", 2, 8, 16),
        tensor("w", 1, 8, 16),
        out("out_0", 2, 8, 16),
    )
    after = lowered(before, dearer=True)
    assert len(main(after).body) > len(main(before).body)
    authors = {s.loc for s in main(before).body}
    assert {s.loc for s in main(after).body} <= authors
    lines = {op: f"kernel.py:{n}:4" for op, n in (("tile.add", 12), ("tile.store", 13))}
    for s in main(after).body:
        if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op in lines:
            assert s.loc == lines[s.value.op]


def test_flattened_load_stays_at_its_own_line_where_other_statements_vanish() -> None:
    before = spanned(
        [
            load("t", "x", [0, 0], [4, 8]),
            let("r", "tile.reshape", "t", [4, 1, 8]),
            let("s", "tile.reshape", "r", [2, 2, 8]),
            store("o", "s", [0, 0, 0], "out_0"),
            ret("o"),
        ],
        tensor("x", 4, 8),
        out("out_0", 2, 2, 8),
    )
    after = lowered(before)
    assert positions(after) == {"t": "kernel.py:10:4", "o": "kernel.py:13:4"}


def test_annotated_program_that_is_already_lowered_keeps_every_position() -> None:
    before = spanned(
        [
            load("t", "x", [0, 0, 0], [2, 3, 4], type=flat(6, 4)),
            let("y", "tile.exp", "t"),
            store("o", "y", [0, 0, 0], "out_0", [2, 3, 4]),
            ret("o"),
        ],
        tensor("x", 2, 3, 4),
        out("out_0", 2, 3, 4),
    )
    assert optimize(before).program is before


def test_positions_survive_in_every_function_of_a_program() -> None:
    lines = [load("t", "x", [0, 0, 0], [2, 3, 4]), store("o", "t", [0, 0, 0], "out_0"), ret("o")]
    parts = [added(), spanned(lines, tensor("x", 2, 3, 4), out("out_0", 2, 3, 4))]
    functions = tuple(replace(main(p), name=f"f{i}") for i, p in enumerate(parts))
    after = lowered(replace(program(), functions=functions))
    assert [s.loc for s in main(after, "f0").body] == [None] * 4
    assert [s.loc for s in main(after, "f1").body] == [f"kernel.py:{n}:4" for n in (10, 11, 12)]
