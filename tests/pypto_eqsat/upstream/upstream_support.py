"""Programs through `--policy upstream`, and what every result of it must promise."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import (
    SECONDS,
    SEEDS,
    Json,
    assert_all_2d,
    calls,
    const,
    cost,
    incore,
    ints,
    let,
    load,
    ops,
    out,
    ret,
    store,
    tensor,
    types,
    windows,
)

from pypto_eqsat.driver import Result, optimize
from pypto_ir.diagnostics import Refused, Severity
from pypto_ir.formats import write_as
from pypto_ir.interp.compare import equivalent
from pypto_ir.printed.program_reader import read_printed
from pypto_ir.stmt import Program
from pypto_ir.verify import linearity, tile_ops_2d, verify_program


def lowered_as_upstream(before: Program, *, faults: tuple[str, ...] = (), **options: Any) -> Program:
    """`before` as upstream lowers it: 2-D, accepted by the verifiers, equal to its input under interpretation, and read back from its
    text. `faults` are words of the warnings about upstream's own program, one each; there are no others. The default gives a program that
    is equal too, at no more than that costs."""
    result = optimize(before, policy="upstream", policy_cost=True, **options)
    checked_faults(result, faults)
    after = result.program
    assert_all_2d(after)
    found = [d for d in verify_program(after) if d.severity is Severity.ERROR]
    for f in after.functions:
        if f.in_core:
            found += [*tile_ops_2d(f), *linearity(f)]
    assert not found, "\n".join(map(str, found))
    verdict = equivalent(before, after, seeds=SEEDS, seconds=SECONDS)
    assert verdict.equal, str(verdict.difference)
    assert verdict.validated or after is before
    text = write_as(after, "text")
    assert after is before or write_as(read_printed(text, "after.py").program, "text") == text
    assert result.stats["cost"] == pytest.approx(cost(after, options.get("target")))
    cheapest = optimize(before, **options)
    assert cheapest.stats["validated"]["equal"]
    assert faults or cheapest.stats["cost"] <= result.stats["cost"] * (1 + 1e-9)
    return after


def checked_faults(result: Result, faults: tuple[str, ...]) -> None:
    """The warnings are those that are named, and there is a cost to compare with where there are none."""
    shown = [f"{d.code} {d.message}" for d in result.diagnostics]
    assert len(shown) == len(faults), shown
    for words, text in zip(faults, shown, strict=True):
        assert words in text, shown
    assert (result.stats["policy_cost"] is None) == bool(faults)
    assert (result.stats["policy_reason"] is None) == (not faults)
    if not faults:
        assert result.stats["policy_cost"] == pytest.approx(result.stats["cost"])


def refused_by_upstream(before: Program, code: str, *words: str, without: tuple[str, ...] = (), **options: Any) -> None:
    """Refused under the policy with one code and all the words, and without a cost that the cheapest program could be compared with."""
    with pytest.raises(Refused) as caught:
        optimize(before, policy="upstream", **options)
    text = str(caught.value)
    assert {d.code for d in caught.value.diagnostics} == {code}, text
    assert [word for word in words if word not in text] == [], text
    assert [word for word in without if word in text] == [], text
    assert all(d.place.function for d in caught.value.diagnostics)


# programs


def stored(params: list[Json], body: list[Json], result: str, shape: list[int], dtype: str = "FP32", **options: Any) -> Program:
    """A program that computes `result` and stores it whole into a tensor of its shape."""
    zeros = [0] * len(shape)
    return incore([*params, out("out_0", *shape, dtype=dtype)], [*body, store("out_1", result, zeros, "out_0"), ret("out_1")], **options)


def mat(name: str, source: str, offsets: list[Any], shape: list[int], valid: list[Any] | None = None, **more: Any) -> Json:
    """A load into L1."""
    return load(name, source, offsets, shape, valid, memory="Mat", **more)


# results


def slices(p: Program, name: str = "main") -> list[tuple[list[int | None], list[int | None]]]:
    """Shape and offset of every tile.slice."""
    return [(ints(c, 1), ints(c, 2)) for c in calls(p, "tile.slice", name)]


def store_offsets(p: Program, name: str = "main") -> list[list[int | None]]:
    return [ints(c, 1) for c in calls(p, "tile.store", name)]


__all__ = [
    "calls", "checked_faults", "const", "incore", "ints", "let", "load", "lowered_as_upstream", "mat", "ops", "out",
    "refused_by_upstream", "ret", "slices", "store", "store_offsets", "stored", "tensor", "types", "windows",
]  # fmt: skip
