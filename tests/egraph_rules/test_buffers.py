"""Buffers of global memory: what shares one, what a statement writes, how versions count."""

from __future__ import annotations

from building import Build, program

from egraph_rules.buffers import EVERYTHING, Versions, aliased_params, buffers, holds_tensor, written
from pypto_ir.expr import Binary
from pypto_ir.stmt import For, Function, If
from pypto_ir.types import INDEX, TupleType

SHAPE = (2, 8)


def _looped() -> Function:
    """A loop that carries `out`, beside a buffer that a branch hands on."""
    b = Build()
    source, out, other = (
        b.tensor("src", SHAPE),
        b.tensor("out", SHAPE, direction="Out"),
        b.tensor("other", SHAPE),
    )
    k = b.scalar("k", 0, 1)
    x = b.read("x", source, SHAPE)
    with b.loop("i", 2, {"carried": out}) as (_, carried):
        b.yields(b.store("out_1", x, carried))
    (joined,) = b.branch(
        Binary("eq", k, Binary("sub", k, k)),
        lambda: b.yields(other),
        lambda: b.yields(other),
        {"joined": other.type},
    )
    b.results += [b.ended[0], b.store("joined_1", x, joined)]
    return b.function()


def test_store_carry_yield_and_result_share_a_buffer() -> None:
    found = buffers(_looped())
    assert len({found.of(n) for n in ("out", "carried", "out_1", "carried_end")}) == 1
    assert len({found.of(n) for n in ("other", "joined", "joined_1")}) == 1
    assert len({found.of(n) for n in ("src", "out", "other")}) == 3


def test_parameters_passed_one_buffer_are_joined() -> None:
    found = buffers(_looped(), (("src", "out"),))
    assert found.of("src") == found.of("carried_end") != found.of("other")


def test_statement_writes_the_buffers_of_its_nested_stores() -> None:
    function = _looped()
    found = buffers(function)
    loop = next(s for s in function.body if isinstance(s, For))
    branch = next(s for s in function.body if isinstance(s, If))
    assert written(loop, found) == (found.of("out"),)
    assert written(branch, found) == ()
    assert written(function.body[0], found) == ()


def test_unknown_op_writes_everything() -> None:
    b = Build()
    b.effect("tile.somebody_else", b.load("x", SHAPE))
    function = b.function()
    assert written(function.body[-2], buffers(function)) == (EVERYTHING,)


def test_version_counts_writes_and_a_branch_restores_it() -> None:
    function = _looped()
    found = buffers(function)
    versions = Versions(found)
    source, out, other = (p.var for p in function.params[:3])
    start = versions.of(out)
    saved = versions.snapshot()
    versions.bump((found.of("out"),))
    after = versions.of(out)
    assert after != start and after[0][0] == start[0][0]
    versions.bump((EVERYTHING,))
    assert versions.of(source) != versions.of(other)
    assert all(versions.of(v)[0][1] > after[0][1] for v in (source, out, other))
    versions.restore(saved)
    assert versions.of(out) == start


def test_tuples_hold_tensors() -> None:
    tensor = Build().tensor("x", SHAPE).type
    assert holds_tensor(TupleType((INDEX, tensor))) and not holds_tensor(TupleType((INDEX,)))


def test_calls_with_separate_buffers_alias_nothing() -> None:
    assert aliased_params(program(_looped())) == {}
