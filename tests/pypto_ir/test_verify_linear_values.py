"""Linearity by what values are: names for tiles, tuples, calls of functions, positions that are not constant, and what ops do to their
operands; and how much of a nest of loops is followed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_verify_windows import create, into, load, op, slice_of, trips, use

from pypto_ir.json_reader import read_program
from pypto_ir.ops.registry import Role, all_ops
from pypto_ir.stmt import Function
from pypto_ir.verify import linearity as check
from pypto_ir.verify import violations
from pypto_ir.verify.linearity import _Walk

#: trips of a loop, and statements, that are followed
FOLLOWED, VISITS = 8, 10_000

Json = dict[str, Any]
TILE = {"tile": [16, 32], "dtype": "FP32", "memory": "Vec"}
SMALL = {"tile": [4, 32], "dtype": "FP32", "memory": "Vec"}
HEAD = (load("t"), load("s", 4))


def function(*body: Json) -> Function:
    params = [
        {"name": "x", "type": {"tensor": [64, 32], "dtype": "FP32"}},
        {"name": "n", "type": {"scalar": "INDEX"}, "range": [0, 3]},
        {"name": "f", "type": {"scalar": "FP32"}},
        {"name": "dyn", "type": {**TILE, "tile": ["n", 32]}},
        {"name": "pair", "type": {"tuple": [TILE, {"scalar": "INDEX"}, {"tuple": [TILE]}]}},
        {"name": "out", "type": {"tensor": [64, 32], "dtype": "FP32"}, "direction": "Out"},
    ]
    last = body[-1] if body and "return" in body[-1] else None
    main = {"name": "f", "kind": "InCore", "params": params, "returns": [TILE] * len(last["return"]) if last else [], "body": list(body)}
    both = {
        "name": "both", "params": [{"name": "a", "type": TILE}], "returns": [{"scalar": "INDEX"}, TILE],
        "body": [{"let": "k", "expr": "0"}, {"return": ["k", "a"]}],
    }  # fmt: skip
    one = {"name": "one", "params": [{"name": "a", "type": TILE}], "returns": [TILE], "body": [{"return": ["a"]}]}
    small = {"name": "small", "params": [{"name": "a", "type": SMALL}], "body": [{"return": []}]}
    two = {"name": "two", "params": [{"name": "a", "type": {"tuple": [TILE, SMALL]}}], "body": [{"return": []}]}
    return read_program(json.dumps({"pypto_ir": 1, "functions": [main, both, one, small, two]})).functions[0]


def found(*body: Json) -> list[tuple[str, str]]:
    """(variable that is read, buffer that was overwritten) of each violation."""
    return [(v.var, v.buffer) for v in violations(function(*body))]


def let(name: str, expr: Any) -> Json:
    return {"let": name, "expr": expr}


def item(of: Any, index: int) -> Json:
    return {"item": index, "of": of}


def bare(op: str, *args: Any) -> Json:
    """A call whose result nobody names."""
    return {"op": op, "args": list(args)}


WRITE = into("a", "t", "s", 0)

# ---- names -------------------------------------------------------------------------------------------------


def test_another_name_of_a_tile_is_the_same_tile() -> None:
    assert found(*HEAD, let("b", "t"), WRITE, use("b")) == [("b", "t")]
    assert found(*HEAD, let("b", "t"), into("a", "b", "s", 0), use("t")) == [("t", "t")]


def test_another_name_of_a_number_is_the_same_number() -> None:
    body = (let("k", "n"), slice_of("w", "t", "k"))
    assert found(*HEAD, *body, into("a", "t", "s", "n + 4"), use("w")) == []
    assert found(*HEAD, *body, into("a", "t", "s", "n + 3"), use("w")) == [("w", "t")]
    sum_ = (let("k", "n + 4"), let("m", "k + 4"), slice_of("w", "t", "m"))
    assert found(*HEAD, *sum_, into("a", "t", "s", "n + 4"), use("w")) == []


def test_a_tuple_hands_on_its_elements_one_by_one() -> None:
    for body in ([let("p", ["t", "s"])], [let("q", ["t", "s"]), let("p", "q")]):
        for index, seen in ((0, [("r", "t")]), (1, [])):
            assert found(*HEAD, *body, WRITE, let("r", item("p", index)), use("r")) == seen
        for index, of, seen in ((0, "one", [("p", "t")]), (1, "small", [])):
            assert found(*HEAD, *body, WRITE, {"call": of, "args": [item("p", index)]}) == seen
        assert found(*HEAD, *body, WRITE, {"call": "two", "args": ["p"]}) == [("p", "t")]


def test_elements_of_a_tuple_that_is_given_are_tiles_of_their_own() -> None:
    assert found(*HEAD, let("g", item("pair", 0)), into("a", "g", "s", 0), use("g")) == [("g", "pair")]
    assert found(*HEAD, let("g", item("pair", 0)), into("a", "g", "s", 0), use("a"), use("t", 1)) == []


def test_a_tile_of_unknown_place_has_one_from_its_first_write_on() -> None:
    inner = let("g", item(item("pair", 2), 0))
    assert found(*HEAD, inner, into("a", "g", "s", 0), into("b", "a", "s", 4), use("a")) == [("a", "a")]


# ---- calls, returns, scopes --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["call", "submit"])
def test_a_function_reads_its_arguments_and_gives_tiles_of_its_own(how: str) -> None:
    task = ["task"] if how == "submit" else []
    assert found(*HEAD, WRITE, {"let": ["r", *task], how: "one", "args": ["t"]}) == [("t", "t")]
    assert found(*HEAD, WRITE, {how: "one", "args": ["t"]}) == [("t", "t")]
    made = {"let": ["k", "r", *task], how: "both", "args": ["t"]}
    assert found(*HEAD, made, into("a", "r", "s", 0), use("r")) == [("r", "r")]
    assert found(*HEAD, made, into("a", "r", "s", 0), use("a"), use("t", 1)) == []


def test_a_function_gives_a_tuple_with_a_tile_of_its_own() -> None:
    made = {"let": "p", "call": "both", "args": ["t"]}
    assert found(*HEAD, made, let("r", item("p", 1)), into("a", "r", "s", 0), use("r")) == [("r", "p")]


def test_numbers_that_a_function_gives_are_not_known() -> None:
    made = [{"let": ["k", f"r{i}"], "call": "both", "args": ["t"]} for i in range(1)]
    body = (slice_of("w", "t", "k"), use("w"), into("a", "t", "s", "k + 4"))
    assert found(*HEAD, trips(*made, *body, to=2)) == [("t", "t"), ("w", "t"), ("t", "t")]


def test_what_is_returned_is_read() -> None:
    assert found(*HEAD, WRITE, {"return": ["t"]}) == [("t", "t")]
    assert found(*HEAD, WRITE, {"return": ["a"]}) == []


def test_statements_of_a_scope_are_followed() -> None:
    assert found(*HEAD, {"scope": "cluster", "body": [WRITE]}, use("t")) == [("t", "t")]


def test_calls_without_a_name_write_and_read_too() -> None:
    assert found(*HEAD, bare("tile.assemble", "t", "s", [0, 0]), use("t")) == [("t", "t")]
    assert found(*HEAD, WRITE, bare("tile.exp", "t"), bare("tile.slice", "s", [2, 32], [0, 0])) == [("t", "t")]
    assert found(*HEAD, trips(use("t"), bare("tile.assemble", "t", "s", [0, 0]))) == [("t", "t")] * 2


def test_an_op_without_a_declaration_reads_its_operands_and_gives_a_tile_of_its_own() -> None:
    magic = {"let": "m", "op": "vendor.magic", "args": ["t"], "type": TILE}
    assert found(*HEAD, WRITE, magic) == [("t", "t")]
    assert found(*HEAD, magic, into("a", "m", "s", 0), use("m"), use("t", 1)) == [("m", "m")]
    assert found(*HEAD, trips(magic, use("m"))) == []


# ---- operands in place -------------------------------------------------------------------------------------


def test_an_op_in_place_without_further_operands_writes_all_of_its_tile() -> None:
    assert found(*HEAD, slice_of("w", "t", 8), op("a", "tile.fillpad_inplace", "t"), use("w")) == [("w", "t")]


def test_ops_in_place_write_one_operand_and_need_no_scratch() -> None:
    for declared in all_ops():
        if declared.writes:
            assert len(declared.writes) == 1 and not any(o.role is Role.SCRATCH for o in declared.operands), declared.name


def test_scratch_is_not_read() -> None:
    row, again = (op(name, "tile.row_max", "t", "c") for name in "mk")
    assert found(*HEAD, load("c"), row, again) == []
    assert found(*HEAD, load("c"), row, again, use("c")) == [("c", "c")] * 2
    assert found(*HEAD, create("c"), row, into("d", "c", "s", 0), use("d")) == []


def test_garbage_in_every_trip_spoils_what_is_read_in_the_next() -> None:
    assert found(*HEAD, load("c"), trips(use("c"), op("m", "tile.row_max", "t", "c"))) == [("c", "c")]


# ---- positions ---------------------------------------------------------------------------------------------


def test_a_write_through_a_view_of_other_coordinates_may_be_anywhere() -> None:
    """Rows 16 to 19 of [32, 16] are rows 8 and 9 of [16, 32]."""
    view, narrow = op("r", "tile.reshape", "t", [32, 16]), op("q", "tile.reshape", "s", [8, 16])
    part = op("p", "tile.slice", "q", [4, 16], [0, 0])
    assert found(*HEAD, view, narrow, part, slice_of("w", "t", 8), op("a", "tile.assemble", "r", "p", [16, 0]), use("w")) == [("w", "t")]


def test_what_has_other_coordinates_is_not_put_back() -> None:
    view = op("r", "tile.reshape", "t", [16, 32])
    assert found(*HEAD, view, into("a", "t", "r", 0), use("t")) == [("t", "t")]
    assert found(*HEAD, view, into("a", "r", "t", 0), use("r")) == [("r", "t")]


def test_the_valid_region_of_a_view_of_other_coordinates_has_them_too() -> None:
    view = (
        op("r", "tile.reshape", "t", [32, 16]),
        op("c", "tile.set_validshape", "r", 32, 16),
        op("w", "tile.slice", "c", [8, 16], [0, 0]),
    )
    assert found(*HEAD, *view, into("a", "t", "s", 12), use("w")) == [("w", "t")]


def test_an_axis_that_is_dropped_changes_the_coordinates() -> None:
    """The column of rows 8 to 11 as a row; its last element is row 11."""
    column = op("w", "tile.slice", "t", [4, 1], [8, 0], [4, 1], [1])
    last = op("v", "tile.slice", "w", [1, 1], [0, 3])
    assert found(*HEAD, column, last, into("a", "t", "s", 11), use("v")) == [("v", "t")]
    assert found(*HEAD, column, last, into("a", "t", "s", 12), use("v")) == []
    for more in ([[4, 32]], [[4, 32], []]):
        kept = op("w", "tile.slice", "t", [4, 32], [8, 0], *more)
        assert found(*HEAD, kept, op("v", "tile.slice", "w", [1, 32], [0, 0]), into("a", "t", "s", 9), use("v")) == []


def test_a_tile_of_unknown_extent_is_written_as_a_whole() -> None:
    assert found(*HEAD, into("a", "dyn", "s", 0), use("dyn")) == [("dyn", "dyn")]
    window = slice_of("w", "dyn", 0)
    assert found(*HEAD, window, into("a", "dyn", "s", 8), use("w")) == [("w", "dyn")]
    assert found(*HEAD, window, into("a", "dyn", "w", 0), use("dyn")) == [("dyn", "dyn")]
    assert found(*HEAD, into("a", "dyn", "dyn", 0), use("dyn")) == [("dyn", "dyn")]
    assert found(*HEAD, slice_of("w", "t", 12), into("a", "t", "dyn", 0), use("w")) == [("w", "t")]


def test_a_window_of_a_tile_of_other_coordinates_may_be_anywhere_in_it() -> None:
    """Rows 8 to 15 as [16, 16], and a window of that, and a window of the window."""
    view = (slice_of("u", "t", 8, 8), op("r", "tile.reshape", "u", [16, 16]), op("w", "tile.slice", "r", [4, 16], [12, 0]))
    deeper = (*view, op("v", "tile.slice", "w", [2, 16], [0, 0]))
    for body, name in ((view, "w"), (deeper, "v")):
        assert found(*HEAD, *body, WRITE, use(name)) == []
        assert found(*HEAD, *body, into("a", "t", "s", 8), use(name)) == [(name, "t")]
        assert found(*HEAD, *body, into("a", "t", "s", 12), use(name)) == [(name, "t")]


def test_positions_that_grow_too_long_are_not_followed() -> None:
    growing = [let(f"k{i + 1}", f"k{i} * k{i} % 16") for i in range(60)]
    body = (let("k0", "n"), *growing, slice_of("w", "t", "k60"))
    assert found(*HEAD, *body, into("a", "t", "s", "k60 + 4"), use("w")) == []


def test_sums_of_floats_round() -> None:
    """f + 2**30 - 2**30 is no f."""
    far = "1073741824.0"
    for body in ([let("g", f"f + {far} - {far}"), let("k", 'cast(g, "INDEX")')], [let("k", f'cast(f + {far} - {far}, "INDEX")')]):
        window = (*body, slice_of("w", "t", "k"))
        assert found(*HEAD, *window, into("a", "t", "s", 'cast(f, "INDEX") + 4'), use("w")) == [("w", "t")]
        assert found(*HEAD, *window, into("a", "t", "s", "k + 4"), use("w")) == []
    flag = (let("b", f"f + {far} - {far} == f"), let("k", 'cast(b, "INDEX")'), slice_of("w", "t", "k"))
    assert found(*HEAD, *flag, into("a", "t", "s", 'cast(f == f, "INDEX") + 4'), use("w")) == [("w", "t")]


def test_two_windows_of_a_branch_are_not_put_back_into_one_tile() -> None:
    arms = {"if": "n == 0", "then": [slice_of("w", "t", 0), {"yield": ["w"]}], "else": [{"yield": ["s"]}], "results": ["y"]}
    assert found(*HEAD, arms, into("a", "t", "y", 0), use("t")) == [("t", "t")]


# ---- control flow ------------------------------------------------------------------------------------------


def test_the_result_of_a_loop_is_what_its_last_trip_gave() -> None:
    loop = trips({"yield": ["c"]}, carry={"c": "t"}, results=("r",), to=3)
    assert found(*HEAD, loop, into("a", "r", "s", 0), use("t")) == [("t", "t")]


def test_rows_that_the_trip_tells_are_others_in_the_next() -> None:
    """Rows i * 4 are read, those after them are written."""
    body = (slice_of("w", "t", "i * 4"), use("w"), into("a", "t", "s", "i * 4 + 4"))
    assert found(*HEAD, trips(*body)) == [("w", "t"), ("t", "t")]


def test_numbers_that_are_carried_or_that_arms_give_are_others_in_the_next_trip() -> None:
    body = (slice_of("w", "t", "k"), use("w"), into("a", "t", "s", "k + 4"))
    carried = trips(*body, let("m", "k + 4"), {"yield": ["m"]}, carry={"k": "zero"}, results=("last",))
    assert found(*HEAD, let("zero", "0"), carried) == [("w", "t"), ("t", "t")]
    arms = {"if": "i == 0", "then": [let("k1", "0"), {"yield": ["k1"]}], "else": [let("k2", "4"), {"yield": ["k2"]}], "results": ["k"]}
    assert found(*HEAD, trips(arms, *body)) == [("w", "t"), ("t", "t")]


def test_buffers_in_a_circle_are_followed_for_as_many_trips_as_are_allowed() -> None:
    names = [f"b{i}" for i in range(FOLLOWED + 2)]
    body = (into("w", f"c{names[0]}", "s", 0), {"yield": [*(f"c{n}" for n in names[1:]), "w"]})
    loop = trips(*body, to=len(names), carry={f"c{n}": n for n in names}, results=tuple(f"r{n}" for n in names))
    seen = [bool(found(*map(load, names), load("s", 4), loop, use(name))) for name in names]
    assert seen == [True] * FOLLOWED + [False] * 2


# ---- how much is followed ----------------------------------------------------------------------------------


def nest(depth: int, *inner: Json, name: str = "i") -> Json:
    """Loops in each other, around statements."""
    body = list(inner)
    for level in range(depth):
        body = [{"for": f"{name}{level}", "range": [0, "n", 1], "body": body}]
    return body[0]


def visits(monkeypatch: pytest.MonkeyPatch, *body: Json) -> int:
    """How many statements are followed."""
    count = 0
    follow = _Walk.statement

    def counted(self: Any, s: Any, at: Any) -> None:
        nonlocal count
        count += 1
        follow(self, s, at)

    f = function(*body)
    with monkeypatch.context() as patch:
        patch.setattr(_Walk, "statement", counted)
        check(f)
    return count


def test_loops_are_followed_twice_where_they_write_and_once_where_they_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    write = into("a", "t", "s", 0)
    assert visits(monkeypatch, *HEAD, nest(1, use("t"))) == 4
    assert visits(monkeypatch, *HEAD, nest(6, use("t"))) == 2 + 7
    assert visits(monkeypatch, *HEAD, nest(6, use("t"), write)) == 2 + 2**6 - 1 + 2 * 2**6
    assert visits(monkeypatch, *HEAD, nest(6, use("t"), bare("tile.exp", "t"), nest(1, write, name="j"))) == 2 + 2**6 - 1 + 5 * 2**6
    assert visits(monkeypatch, *HEAD, load("c"), nest(3, op("m", "tile.row_max", "t", "c"))) == 3 + 2**3 - 1 + 2**3
    assert visits(monkeypatch, *HEAD, nest(3, {"op": "vendor.effect", "args": ["t"], "type": {"unknown": True}})) == 2 + 4
    assert visits(monkeypatch, *HEAD, nest(3, {"call": "one", "args": ["t"]})) == 2 + 4


#: nests of writing loops that take 9980 visits: 8191 + 1023 + 511 + 255
NESTS = [nest(depth, into(f"a{depth}", "t", "s", 0), name=f"i{depth}_") for depth in (12, 9, 8, 7)]


@pytest.mark.parametrize("more", [0, 1])
def test_as_many_visits_as_are_allowed_are_made(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    fill = [use("s", i) for i in range(VISITS - 9980 - len(HEAD) + more)]
    made = visits(monkeypatch, *HEAD, *fill, *NESTS)
    assert (made == VISITS) == (not more) and made <= VISITS
    assert made == VISITS or made < 1000


def test_three_levels_are_followed_however_long_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    write, body = into("a", "t", "s", 0), [use("s", i) for i in range(1300)]
    assert visits(monkeypatch, *HEAD, nest(3, *body, write)) == 2 + 7 + 8 * 1301
    deeper = nest(3, *body, nest(1, *(use("s", i + 2000) for i in range(60)), write, name="j"))
    assert visits(monkeypatch, *HEAD, deeper) < 8 * 1301


def test_a_nest_that_takes_too_long_is_followed_through_its_first_trips_and_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    made = op("z", "tile.full", [16, 32], {"const": 0.0, "dtype": "FP32"}, dtype="FP32")
    deep = nest(1, made, nest(39, into("a", "z", "s", 0), name="j"))
    assert visits(monkeypatch, *HEAD, deep) < 5000
    assert found(*HEAD, deep) == [("z", "z")]
    # a loop beside it, and one in it after another, are followed twice, too
    assert found(*HEAD, deep, load("y"), nest(1, into("b", "y", "s", 0), name="k")) == [("z", "z"), ("y", "y")]
    beside = nest(1, made, nest(39, into("a", "s", "s", 0), name="j"), load("y"), nest(1, into("b", "y", "s", 0), name="k"))
    assert ("y", "y") in found(*HEAD, beside)
