"""Programs written in a few lines, and what every lowering must promise.

    x, out = tensor("x", 2, 3, 4), tensor("out", 2, 3, 4, direction="Out")
    before = incore([x, out], [
        load("t", "x", [0, 0, 0], [2, 3, 4]),
        let("y", "tile.add", "t", "t"),
        store("o", "y", [0, 0, 0], "out"),
        ret("o"),
    ])
    after = lowered(before)

Statements and types are the JSON of program files, so that types are deduced by the reader. `lowered`
optimises and checks: accepted by the verifiers, equal under interpretation on more seeds than the default,
not dearer than the input, and unchanged by a second run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from extract.legal import is_two_d
from extract.price import price_program
from extract.target import load_target
from pypto_eqsat.driver import Result, optimize
from pypto_ir.diagnostics import Refused, Severity
from pypto_ir.expr import const_int
from pypto_ir.interp.compare import equivalent
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program
from pypto_ir.ops.registry import type_of
from pypto_ir.stmt import Assign, Call, Eval, Function, Program, tuple_items, walk
from pypto_ir.types import TileType
from pypto_ir.verify import linearity, tile_ops_2d, verify_program

SHARED = Path(__file__).parents[1].parent / "shared"
#: seeds and seconds of the comparison beyond what `optimize` itself does
SEEDS, SECONDS = range(6), 15.0

Json = dict[str, Any]
Dim = int | str


# program files in a few words


def tensor(name: str, *shape: Dim, dtype: str = "FP32", direction: str | None = None, **more: Any) -> Json:
    """A tensor parameter."""
    result: Json = {"name": name, "type": {"tensor": list(shape), "dtype": dtype, **more}}
    return result if direction is None else {**result, "direction": direction}


def out(name: str, *shape: Dim, dtype: str = "FP32", **more: Any) -> Json:
    """A tensor parameter of direction Out."""
    return tensor(name, *shape, dtype=dtype, direction="Out", **more)


def tile(name: str, *shape: Dim, dtype: str = "FP32", memory: str = "Vec", **more: Any) -> Json:
    """A tile parameter."""
    return {"name": name, "type": {"tile": list(shape), "dtype": dtype, "memory": memory, **more}}


def scalar(name: str, dtype: str = "INDEX", range: tuple[int, int] | None = None) -> Json:
    """A scalar parameter; `range` bounds it, both ends included."""
    result: Json = {"name": name, "type": {"scalar": dtype}}
    return result if range is None else {**result, "range": list(range)}


def let(name: str, op: str, *args: Any, type: Json | None = None, attrs: Json | None = None, **kwargs: Any) -> Json:
    """`name = op(args, kwargs)`."""
    result: Json = {"let": name, "op": op, "args": list(args)}
    for key, value in (("kwargs", kwargs), ("attrs", attrs), ("type", type)):
        if value:
            result[key] = value
    return result


def load(
    name: str,
    source: str,
    offsets: Sequence[Dim],
    shape: Sequence[int],
    valid: Sequence[Dim] | None = None,
    memory: str = "Vec",
    **more: Any,
) -> Json:
    """A load; a 2-D `type=flat(..)` makes it a flattened one."""
    window = [list(offsets), list(shape), list(shape if valid is None else valid)]
    return let(name, "tile.load", source, *window, target_memory=memory, **more)


def flat(*shape: int) -> Json:
    """The annotation of a flattened load or create: its tile has this shape."""
    return {"tile": list(shape)}


def store(
    name: str,
    source: str,
    offsets: Sequence[Dim],
    target: str,
    window: Sequence[Dim] | None = None,
    **more: Any,
) -> Json:
    """A store, with the box of the target where `window` is given."""
    box = [] if window is None else [list(window)]
    return let(name, "tile.store", source, list(offsets), target, *box, **more)


def ret(*names: str) -> Json:
    return {"return": list(names)}


def give(*names: str) -> Json:
    """The yield that ends a loop body or an arm."""
    return {"yield": list(names)}


def loop(
    var: str,
    bounds: Sequence[Dim],
    carry: dict[str, str],
    body: list[Json],
    results: Sequence[str] = (),
    **more: Any,
) -> Json:
    """A for loop; `carry` maps carried names to their first values."""
    carries = [{"name": name, "init": init} for name, init in carry.items()]
    return {
        "for": var,
        "range": list(bounds),
        "carry": carries,
        "body": body,
        "results": list(results),
        **more,
    }


def const(value: float, dtype: str = "FP32") -> Json:
    return {"const": value, "dtype": dtype}


def function(name: str, params: list[Json], body: list[Json], kind: str = "InCore", **more: Any) -> Json:
    """A function that returns its written parameters in order, unless `returns` says otherwise."""
    returns = [p["type"] for p in params if p.get("direction", "In") != "In"]
    return {"name": name, "kind": kind, "params": params, "returns": returns, "body": body, **more}


def program(*functions: Json, target: str | None = "ascend910b", dynamic: Sequence[str] = ()) -> Program:
    """A program, read and verified."""
    value: Json = {"pypto_ir": 1, "name": "P", "functions": list(functions), "dynamic": list(dynamic)}
    if target is not None:
        value["target"] = target
    result = read_program(json.dumps(value), "test.json")
    errors = [d for d in verify_program(result) if d.severity is Severity.ERROR]
    assert not errors, "\n".join(map(str, errors))
    return result


def incore(params: list[Json], body: list[Json], **options: Any) -> Program:
    """A program of one InCore function `main`; options of `function` and of `program`."""
    outer = {key: options.pop(key) for key in ("target", "dynamic") if key in options}
    return program(function("main", params, body, **options), **outer)


def kernel(name: str) -> Program:
    """A program of the folder of kernels."""
    file = SHARED / "kernels" / f"{name}.json"
    return read_program(file.read_text(), file.name)


# what is asked of a result


def cost(p: Program, target: str | None = None) -> float:
    """The price of the in-core functions of a program, in cycles of the model."""
    return sum(price.cost for price in price_program(p, load_target(target or p.target)).values())


def checked(before: Program, result: Result, *, complete: bool = True, dearer: bool = False) -> Program:
    """The program of a result, after everything that a lowering promises was checked. With `dearer` it may
    cost more than the input: an N-D op without one 2-D op, or a transpose that lacks its scratch tile, is
    priced as written, and no legal program has that price."""
    after = result.program
    errors = [d for d in verify_program(after) if d.severity is Severity.ERROR]
    for f in after.functions:
        if f.in_core:
            errors += [*tile_ops_2d(f), *linearity(f)]
            assert is_two_d(f), f"{f.name} is no legal 2-D program"
    assert not errors, "\n".join(map(str, errors))
    assert result.stats["cost"] == pytest.approx(cost(after))
    assert dearer or cost(after) <= cost(before) * (1 + 1e-9)
    assert result.stats["lower_bound"] <= result.stats["cost"] * (1 + 1e-9)
    assert_equal_runs(before, after, complete=complete)
    again = optimize(after, validate=False)
    assert again.program is after, "a second run changes the program"
    assert read_program(write_program(after)) == after
    return after


def lowered(before: Program, *, complete: bool = True, dearer: bool = False, **options: Any) -> Program:
    """`before` optimised and checked; `complete` asks for a run without cut loops of every changed
    function."""
    return checked(before, optimize(before, **options), complete=complete, dearer=dearer)


def assert_equal_runs(before: Program, after: Program, *, complete: bool = True) -> None:
    """Equal under interpretation, and not only because nothing was run."""
    verdict = equivalent(before, after, seeds=SEEDS, seconds=SECONDS)
    assert verdict.equal, str(verdict.difference)
    assert verdict.validated, f"never run: {verdict.not_covered}"
    assert not complete or all(covered.complete for covered in verdict.covered.values())


def assert_no_dearer(after: Program, expected: Program) -> None:
    """Not dearer under the model than a program that is known to be a right result."""
    for f in expected.functions:
        assert not f.in_core or is_two_d(f), f"the expected {f.name} is no legal 2-D program"
    assert cost(after) <= cost(expected) * (1 + 1e-9)


def refused(before: Program, *words: str, **options: Any) -> Refused:
    """The refusal of a program; every one of `words` stands in its text."""
    with pytest.raises(Refused) as caught:
        optimize(before, **options)
    text = str(caught.value)
    missing = [word for word in words if word not in text]
    assert not missing, f"{missing} not in: {text}"
    return caught.value


def refused_or_equal(before: Program, *words: str, **options: Any) -> Program | None:
    """A program without a lowering yet: refused with `words` in the text, or else compiled as every other, at its own price."""
    try:
        result = optimize(before, **options)
    except Refused as refusal:
        missing = [word for word in words if word not in str(refusal)]
        assert not missing, f"{missing} not in: {refusal}"
        assert all(d.code.startswith("L") for d in refusal.diagnostics), str(refusal)
        return None
    return checked(before, result, dearer=True)


# reading results


def main(p: Program, name: str = "main") -> Function:
    found = p.function(name)
    assert found is not None
    return found


def calls(p: Program, op: str | None = None, name: str = "main") -> list[Call]:
    """The op calls of a function in program order, of one op where it is named."""
    return [call for call, _ in _calls(main(p, name)) if op is None or call.op == op]


def ops(p: Program, name: str = "main") -> list[str]:
    """The ops of a function in program order, without their common prefix."""
    return [call.op.removeprefix("tile.") for call in calls(p, name=name)]


def _calls(f: Function) -> Iterator[tuple[Call, str | None]]:
    for s in walk(f.body):
        if isinstance(s, Assign | Eval) and isinstance(s.value, Call):
            yield s.value, s.target.name if isinstance(s, Assign) else None


def types(p: Program, name: str = "main") -> dict[str, TileType]:
    """The types of the tiles that a function assigns, by name."""
    found = {s.target.name: s.target.type for s in walk(main(p, name).body) if isinstance(s, Assign)}
    return {name: t for name, t in found.items() if isinstance(t, TileType)}


def shapes(p: Program, name: str = "main") -> dict[str, tuple[int, ...] | None]:
    """The physical shapes of the tiles that a function assigns, by name."""
    return {var: t.static_shape for var, t in types(p, name).items()}


def ints(call: Call, i: int) -> list[int | None]:
    """Operand i of a call, a literal tuple, as numbers (None for what is not constant)."""
    items = tuple_items(call.args[i])
    assert items is not None, f"operand {i} of {call.op} is no literal tuple"
    return [const_int(e) for e in items]


def windows(p: Program, name: str = "main") -> list[list[int | None] | None]:
    """The boxes of the stores of a function, None for a store without one."""
    return [ints(c, 3) if len(c.args) > 3 else None for c in calls(p, "tile.store", name)]


def assert_all_2d(p: Program) -> None:
    """No value of an in-core function has more than two dims."""
    for f in p.functions:
        if f.in_core:
            wide = [v for call, _ in _calls(f) for v in call.args if isinstance(t := type_of(v), TileType) and t.rank > 2]
            assert not wide
            assert all(t.rank <= 2 for t in types(p, f.name).values())
