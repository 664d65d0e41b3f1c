"""What must hold of index facts: everything that they say is true of every value that the interpreter sees.

    check_index(random_index_program(random.Random(7)))

The program is run for all values of its entry's parameters, on several lanes, with floor and with truncating division and as kernels
divide; at each probe the value is held against the fact, the proof, the quotient and the relation that were given for it. Upstream's
prover is asked too: whatever it accepts must be proved, unless a value contradicts it, or facts say that every value does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias

from egraph_rules.index_domain import bounds, make, meet
from egraph_rules.index_facts import Fact, IndexFacts, Proof, Relation
from egraph_rules.mx.proofs import Where
from egraph_rules.mx.upstream import UpstreamProver
from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Cast, Const, Expr, Unary, Var, dtype_of, variables
from pypto_ir.interp.inputs import Lane
from pypto_ir.interp.machine import Machine
from pypto_ir.interp.scalars import DIVISIONS, Thunk, compile_expr
from pypto_ir.interp.statements import StatementCompiler, Step
from pypto_ir.interp.values import RunError
from pypto_ir.stmt import Assign, Stmt, walk
from pypto_ir.text import expr_text
from pypto_ir.types import ScalarType
from tests.generators.index_programs import Drawn, Probe

LANES = (Lane(0, 1, 1), Lane(2, 3, 0))
#: blocks of launches as large as there are: what holds of few may wrap for these
FAR = (Lane((1 << 31) - 2, (1 << 31) - 1, 1), Lane(3 << 26, 3 << 26 | 16, 0), Lane(600_000, 600_016, 0), Lane(40_000, 1 << 16, 1))
#: more of them, for what upstream's prover accepts and facts do not prove
FARTHER = tuple(Lane(b, b + 1, 0) for k in range(4, 31) for b in (1 << k, (1 << k) + 5, 3 << k - 1, 5 << k - 2))
#: statements of one run, and of one that looks again at what upstream's prover accepts and facts do not prove
STEPS, MORE_STEPS = 2000, 100_000
EXPRESSIONS = (Const, Var, Unary, Binary, Cast)
#: what looks at the values of probes, by the identity of their statement
Looks: TypeAlias = dict[int, list[Callable[[dict[str, Any]], None]]]


class FalseFact(Exception):
    """A fact that some value contradicts."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What was said of a probe."""

    probe: Probe
    fact: Fact
    proof: Proof
    quotient: Expr | None
    relation: tuple[Expr, Relation] | None
    upstream: bool


@dataclass(slots=True)
class Judged:
    """What came of a probe: whether facts prove it, whether upstream's prover accepts it, whether some run saw its value, whether some was
    cut short that might have shown more of it, and a value that (as an index reads it) is no non-negative multiple, where one was seen."""

    probe: Probe
    proof: Proof
    proved: bool
    upstream: bool
    seen: bool = False
    cut: bool = False
    contradicted: int | None = None

    @property
    def true(self) -> bool:
        """True where some run saw its value and none contradicts it."""
        return self.seen and self.contradicted is None

    @property
    def excluded(self) -> bool:
        """True where its fact allows no non-negative multiple at all: a constant that wraps, in an arm that no run reaches."""
        fact = self.proof.fact
        largest = bounds(fact.dtype)[1] // (2 if fact.dtype.is_unsigned else 1)
        return not fact.never and meet(fact, make(fact.dtype, 0, largest, self.proof.divisor)) is None

    @property
    def false_upstream(self) -> bool:
        """True for what upstream's prover accepts and is false."""
        return self.upstream and (self.contradicted is not None or self.excluded)

    @property
    def doubtful(self) -> bool:
        """True for what upstream's prover accepts, facts do not prove, and nothing shows to be false."""
        return self.upstream and not self.proved and not self.false_upstream


@dataclass(slots=True)
class Checked:
    """What a program's check saw: runs, those that came to their end, values, and what came of every probe."""

    judged: list[Judged]
    runs: int = 0
    complete: int = 0
    seen: int = 0
    met: set[int] = field(default_factory=set)  # what this run saw, by identity

    @property
    def missed(self) -> list[Judged]:
        """What upstream's prover accepts, facts do not prove, and is true: all runs came to their end, those of large launches at least to
        it, and nothing shows it to be false. There must be none: where a program asks for its block, of which not all are tried, those
        that are must show what is false."""
        return [j for j in self.judged if j.doubtful and not self._open(j)]

    @property
    def undecided(self) -> list[Judged]:
        """What upstream's prover accepts, facts do not prove, and runs do not decide: they end at a division by zero before a call that
        hands on what is false, or one of a launch of 2^31 blocks is too long to come to it."""
        return [j for j in self.judged if j.doubtful and self._open(j)]

    def _open(self, judged: Judged) -> bool:
        return judged.cut or (not judged.seen and self.complete < self.runs)


class _Watched(StatementCompiler):
    """Makes statements that look at their probes before they run."""

    def __init__(self, machine: Machine, function: str, probes: Looks) -> None:
        super().__init__(machine, function)
        object.__setattr__(self, "_probes", probes)

    def statement(self, s: Stmt) -> Step:
        step, looks = super().statement(s), self._probes.get(id(s), ())  # type: ignore[attr-defined]
        if not looks:
            return step

        def watched(env: dict[str, Any]) -> Any:
            for look in looks:
                look(env)
            return step(env)

        return watched


def check_index(drawn: Drawn, divisor: int = 16, facts_of: Callable[..., IndexFacts] = IndexFacts) -> Checked:
    """Run a program exhaustively and hold every claim against it. Raises `FalseFact` with the program's words."""
    facts, upstream = facts_of(drawn.program), UpstreamProver(drawn.program)
    claims = [_claim(facts, upstream, drawn, i, divisor) for i in range(len(drawn.probes))]
    checked = Checked([Judged(c.probe, c.proof, c.proof.proved, c.upstream) for c in claims])
    main = drawn.program.functions[-1]
    ranges = [range(p.range[0], p.range[1] + 1) for p in main.params if p.range is not None]
    for division in DIVISIONS:
        looks: Looks = defaultdict(list)
        for claim, judged in zip(claims, checked.judged, strict=True):
            looks[id(claim.probe.statement)].append(_look(claim, checked, judged, division))
        for lane in (*LANES, *FAR) if division == "kernel" else LANES:
            _run(drawn, looks, checked, lane, division, product(*ranges))
        for lane in (*LANES, *FARTHER) if division == "kernel" else LANES:
            if any(j.doubtful for j in checked.judged):
                _run(drawn, looks, checked, lane, division, product(*ranges), MORE_STEPS)
    for judged in checked.judged:
        if judged.doubtful and not judged.seen:
            _judge_constant(drawn, judged)
    return checked


def _judge_constant(drawn: Drawn, judged: Judged) -> None:
    """What no run comes to and is made of constants is computed all the same: it is false where some division makes it so."""
    function = drawn.program.function(judged.probe.function)
    assert function is not None
    for division in DIVISIONS:
        env: dict[str, Any] = {}
        for s in walk(function.body):
            if isinstance(s, Assign) and isinstance(s.value, EXPRESSIONS) and (value := _constant(s.value, env, division)) is not None:
                env[s.target.name] = value
        value = _constant(judged.probe.expr, env, division)
        if value is not None and _false(value, judged.proof) and judged.contradicted is None:
            judged.contradicted = value


def _constant(e: Expr, env: dict[str, Any], division: str) -> int | None:
    """The value of an expression of which all names are known."""
    known = dtype_of(e) is not None and all(v.name in env for v in variables(e))
    return _evaluated(compile_expr(e, division), env) if known else None


def _false(value: int, proof: Proof) -> bool:
    """True for a value that is, as an index reads it, no non-negative multiple."""
    return as_index(value, proof.fact.dtype) < 0 or value % proof.divisor != 0


def _claim(facts: IndexFacts, upstream: UpstreamProver, drawn: Drawn, i: int, divisor: int) -> Claim:
    probe = drawn.probes[i]
    function = drawn.program.function(probe.function)
    assert function is not None
    at = Where(function, (), probe.statement)
    accepted = upstream.divisible(at, probe.expr, divisor) is None and upstream.non_negative(at, probe.expr) is None
    fact = facts.of(probe.function, probe.expr, probe.statement)
    proof = facts.prove(probe.function, probe.expr, divisor, probe.statement)
    quotient = facts.quotient(probe.function, probe.expr, divisor, probe.statement) if proof.proved else None
    relation = None
    before = drawn.probes[i - 1]
    if i and before.statement is probe.statement and dtype_of(before.expr) is dtype_of(probe.expr):
        found = facts.relation(probe.function, probe.expr, before.expr, probe.statement)
        relation = None if found is None else (before.expr, found)
    return Claim(probe, fact, proof, quotient, relation, accepted)


def _run(
    drawn: Drawn,
    looks: Looks,
    checked: Checked,
    lane: Lane,
    division: str,
    argument_lists: Iterable[tuple[int, ...]],
    steps: int = STEPS,
) -> None:
    machine = Machine(drawn.program, {}, False, division, lane, None, None, steps, None)
    for f in drawn.program.functions:
        machine.bodies[f.name] = _Watched(machine, f.name, looks).block(f.body)
    near = lane in LANES and steps == STEPS  # loops over all blocks of a large launch have no end in sight
    for args in argument_lists:
        machine.steps = machine.depth = machine.next_check = 0
        checked.met.clear()
        checked.runs += near
        try:
            machine.call(drawn.program.functions[-1], args)
            checked.complete += near
        except RunError:  # a division by zero, a shift too far or too many steps: what was seen before was checked
            for judged in checked.judged if steps != STEPS else ():
                judged.cut |= lane in LANES or id(judged) not in checked.met


def _look(claim: Claim, checked: Checked, judged: Judged, division: str) -> Callable[[dict[str, Any]], None]:
    probe, fact, proof = claim.probe, claim.fact, claim.proof
    value_of = compile_expr(probe.expr, division)
    quotient_of = None if claim.quotient is None else compile_expr(claim.quotient, division)
    exact_of = exact(probe.expr, division) if fact.cannot_wrap else None
    other_of = None if claim.relation is None else compile_expr(claim.relation[0], division)

    def look(env: dict[str, Any]) -> None:
        value = _evaluated(value_of, env)
        if value is None:
            return
        checked.seen += 1
        judged.seen = True
        checked.met.add(id(judged))
        false = _false(value, proof)
        if false and judged.contradicted is None:
            judged.contradicted = value
        inside = fact.lo <= value <= fact.hi
        congruent = (value - fact.residue) % fact.modulus == 0 if fact.modulus else value == fact.residue
        if not (inside and congruent):
            _fail(claim, f"is {value}, said to be {fact}", division)
        if exact_of is not None and exact_of(env) != value:
            _fail(claim, f"is {value} by wrapping, said not to wrap", division)
        if proof.proved and false:
            _fail(claim, f"is {value}, proved to be a non-negative multiple of {proof.divisor}", division)
        if quotient_of is not None and (got := quotient_of(env)) != value // proof.divisor:
            assert claim.quotient is not None
            _fail(claim, f"is {value}, but {expr_text(claim.quotient)} is {got}", division)
        if other_of is not None and claim.relation is not None:
            other = _evaluated(other_of, env)
            relation = claim.relation[1]
            if other is not None and not relation.lo <= value - other <= relation.hi:
                against = expr_text(claim.relation[0])
                _fail(claim, f"less {against} is {value - other}, said to be in [{relation.lo}, {relation.hi}]", division)

    return look


def _evaluated(thunk: Thunk, env: dict[str, Any]) -> int | None:
    try:
        value = thunk(env)
    except RunError:
        return None
    return int(value)


def as_index(value: int, dtype: DType) -> int:
    """A value of a type as an index reads it: by its bits, with a sign."""
    return value - (1 << dtype.bits) if dtype.is_unsigned and value >> (dtype.bits - 1) else value


#: the value of an expression where names have these, None where an operation wraps or has no result
Exact: TypeAlias = Callable[[dict[str, Any]], "int | None"]
_EXACT: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "shl": lambda x, y: x << y, "pow": lambda x, y: x**y,
    "neg": lambda x, _: -x, "abs": lambda x, _: abs(x), "bitnot": lambda x, _: ~x,
}  # fmt: skip


def exact(e: Expr, division: str) -> Exact:
    """The value of an expression if none of its operations wraps, else None."""
    match e:
        case Cast(operand=a):
            inner = exact(a, division)
            return lambda env: None if (x := inner(env)) is None else _fitting(x, e)
        case Unary(op=op, operand=a) if op in _EXACT:
            inner, unary = exact(a, division), _EXACT[op]
            return lambda env: None if (x := inner(env)) is None else _fitting(unary(x, 0), e)
        case Binary(op=op, left=a, right=b):
            return _exact_binary(e, exact(a, division), exact(b, division), division)
    value_of = compile_expr(e, division)
    return lambda env: _evaluated(value_of, env)


def _exact_binary(e: Binary, left: Exact, right: Exact, division: str) -> Exact:
    p, q = dtype_of(e.left), dtype_of(e.right)
    assert p is not None and q is not None
    operation = compile_expr(Binary(e.op, Var("a", ScalarType(p)), Var("b", ScalarType(q))), division)

    def value(env: dict[str, Any]) -> int | None:
        x, y = left(env), right(env)
        if x is None or y is None:
            return None
        if e.op in _EXACT:
            return _fitting(_EXACT[e.op](x, y), e)
        if e.op == "floordiv" and y == -1 and _fitting(-x, e) is None:
            return None
        return _evaluated(operation, {"a": x, "b": y})

    return value


def _fitting(value: int, e: Expr) -> int | None:
    dtype = dtype_of(e)
    assert dtype is not None
    if dtype is DType.BOOL:
        return int(value != 0)
    lo = 0 if dtype.is_unsigned else -(1 << dtype.bits - 1)
    return value if lo <= value < lo + (1 << dtype.bits) else None


def _fail(claim: Claim, what: str, division: str) -> None:
    probe = claim.probe
    t = dtype_of(probe.expr)
    raise FalseFact(f"{probe.function}: {expr_text(probe.expr)} ({ScalarType(t) if t else t}) {what}; division is {division}")
