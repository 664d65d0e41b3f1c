"""One function from N-D to 2-D: saturate, choose, emit, repair, place in memory, and keep the author's
function where nothing is gained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf

from egraph_rules.batch_loops import page_counts, roll_batches
from egraph_rules.engine import Limits, Report, UnsoundRule
from egraph_rules.graph import Graph, saturated
from egraph_rules.narrowed import narrow_accumulators
from egraph_rules.one_buffer import one_buffer
from egraph_rules.page_loops import split_page_loops
from egraph_rules.pending import into_l1
from egraph_rules.prepared import prepared
from extract.allocate import Allocation
from extract.bound import skeleton
from extract.clock import Clock
from extract.decide import decide
from extract.effort import ChoiceLimits
from extract.fit import fitted
from extract.legal import is_two_d, refusals, window_diagnostics
from extract.machine import FAMILIES
from extract.price import Price, price
from extract.problem import Problem
from extract.question import ask
from extract.target import Target
from extract.trace import BATCH_LOOPS, PAGE_LOOPS, Pass
from extract.trips import DEFAULT_TRIPS
from extract.verdict import Judge, internal
from pypto_ir.collection import collector_paused
from pypto_ir.diagnostics import Diagnostic, Refused, declare
from pypto_ir.expr import Var
from pypto_ir.stmt import Assign, Call, Function, walk
from pypto_ir.types import Memory

declare(X001="a rewrite rule united values of different shapes")


@dataclass(slots=True)
class Lowered:
    """A lowered function, its price and the places of its tiles: costs in the units of the cost model,
    `changed` False where the author's function stayed, `settled` True where
    a second run is known to change nothing, `limit` what stopped the choice before its proof, if anything did; `passes` how it was decided,
    where that was to be kept. Where it was lowered from another text than the author's, `beaten` is what the author's own gives, or
    `refusal` why it gives nothing. `in_loops` tells that its pages are done in loops and that every way to write them out, which is the
    only one upstream has, was proved to be dearer."""

    function: Function
    cost: float
    input_cost: float
    lower_bound: float
    changed: bool
    price: Price
    allocation: Allocation
    classes: int = 0
    nodes: int = 0
    report: Report = field(default_factory=Report)
    seconds: dict[str, float] = field(default_factory=dict)
    settled: bool = False
    limit: str | None = None
    passes: list[Pass] = field(default_factory=list)
    beaten: Lowered | None = None
    refusal: tuple[Diagnostic, ...] = ()
    in_loops: bool = False

    @property
    def from_other_text(self) -> bool:
        """True where it was lowered from another text than the author's."""
        return self.beaten is not None or bool(self.refusal)

    def follow(self, again: Lowered) -> None:
        """Go on to what comes of this result as an input; the e-graph that is told of stays that of the author's text."""
        self.spend(again)
        self.passes += again.passes
        self.function, self.cost, self.lower_bound = again.function, again.cost, again.lower_bound
        self.price, self.allocation, self.settled, self.limit = again.price, again.allocation, again.settled, again.limit

    def spend(self, again: Lowered) -> None:
        """Count the seconds of another pass."""
        for phase, spent in again.seconds.items():
            self.seconds[phase] = self.seconds.get(phase, 0.0) + spent


#: most pages of a batch that are written out where code has no price, or no loop is cheaper: a program has to stay finite
MOST_WRITTEN = 1024
#: instructions of a page that is written out: two factors into L0 and a product
PAGE_CODE = 3
#: how often a result is taken as a new input, unless it is settled before
ROUNDS = 4


def lower(
    function: Function,
    target: Target,
    aliased: tuple[tuple[str, str], ...] = (),
    limits: Limits | None = None,
    default_trips: int = DEFAULT_TRIPS,
    without: frozenset[str] = frozenset(),
    choice_limits: ChoiceLimits | None = None,
    traced: bool = False,
) -> Lowered:
    """The cheapest 2-D form of an in-core function that the rules give and the target can hold. Raises
    `Refused` where there is none. `limits` are those of saturation, `choice_limits` those of the choice; work counts over all passes,
    but each that goes on with a result has a quarter of it at least.

    What was moved or copied opens new choices, so such a result is lowered again until nothing changes: lowering the final result gives
    the same function. With `traced` the result holds how every pass that changed something was decided, and which rules made its nodes.
    """

    chosen = choice_limits or ChoiceLimits()

    def once(f: Function, limits_of_choice: ChoiceLimits, beat: float = inf) -> Lowered:
        # what a choice is made of lives to its end: looking for dead cycles in it would take longer the larger it is
        with collector_paused():
            return _lower_once(f, target, aliased, limits, default_trips, without, limits_of_choice, traced, beat)

    def text(f: Function, beat: float) -> Lowered:
        return once(f, chosen if beat == inf else chosen.again(1 / ROUNDS), beat)

    result = _of_texts(function, text, target, aliased, default_trips)
    for _ in range(ROUNDS):
        if result.settled or not result.changed:
            break
        again = once(result.function, chosen.again(1 / ROUNDS))
        if not again.changed:
            result.spend(again)
            break
        result.follow(again)
    narrow = narrow_accumulators(result.function)
    if narrow is not result.function:
        bound, limit = result.lower_bound, result.limit
        result.follow(once(narrow, chosen.again(1 / ROUNDS)))
        result.changed, result.lower_bound, result.limit = True, min(bound, result.lower_bound), result.limit or limit
    return result


class _Dearer(Exception):
    """Nothing that a text gives is cheaper than what is known already."""


def _of_texts(
    function: Function, once: Callable[[Function, float], Lowered], target: Target, aliased: tuple[tuple[str, str], ...], default_trips: int
) -> Lowered:
    """The cheapest of the function as it is and of the function with products of batches as loops, or, where neither fits, what comes of
    accumulators apart that together are too large. Raises `Refused` where nothing fits."""
    tried = _Tried(function, once, target, default_trips)
    counts = page_counts(function)
    # where fetching the products alone takes time, loops come first: what is written out is then given up by its bound
    loops_first = PAGE_CODE * sum(counts) > target.code.cached if target.code.fetch else max(counts, default=0) > MOST_WRITTEN
    if not loops_first:
        tried.text(None, function)
    if counts and not tried.cached:
        joined = one_buffer(into_l1(function))
        large = [n for n in counts if n > MOST_WRITTEN]
        levels = {n for n in counts if n <= MOST_WRITTEN} | ({min(large)} if large else set())
        for least in sorted(levels, reverse=True):
            rolled = roll_batches(joined, least, target.capacity(Memory.ACC), target.acc_row_alignment, aliased)
            if rolled is not joined:
                tried.text(BATCH_LOOPS, rolled)
            if tried.cached:
                break
    if loops_first and (tried.best is None or max(counts) <= MOST_WRITTEN):
        tried.text(None, function)
    capacity = target.capacity(Memory.ACC)
    if tried.best is None and capacity is not None and any(d.code == "M001" for d in tried.refusals):
        apart = split_page_loops(function, capacity, target.acc_row_alignment, aliased)
        if apart is not function:
            tried.text(PAGE_LOOPS, apart)
            if tried.best is not None:
                # the loop may be cut otherwise
                tried.best.lower_bound = min(tried.best.lower_bound, price(skeleton(function), target, default_trips).cost)
    if tried.best is None:
        raise Refused(tried.refusals)
    return tried.best


class _Tried:
    """The cheapest result of the texts of one function so far, and why the first of them gave none, if it did not."""

    def __init__(self, function: Function, once: Callable[[Function, float], Lowered], target: Target, default_trips: int) -> None:
        self.function, self.once, self.target, self.default_trips = function, once, target, default_trips
        self.best: Lowered | None = None
        self.refusals: tuple[Diagnostic, ...] = ()

    @property
    def cached(self) -> bool:
        """True where the best result has no code that is fetched in every run."""
        return self.best is not None and not self.best.price.code

    def text(self, name: str | None, text: Function) -> None:
        """Lower a text, which `name` tells the preparation of, and keep what comes of it where that is cheaper."""
        known = self.best
        try:
            found = self.once(text, inf if known is None else known.cost)
        except _Dearer:
            if known is not None and name is None:
                known.in_loops = True
            return
        except Refused as why:
            if any(d.code.startswith("X") for d in why.diagnostics):
                raise  # a fault of the optimiser is told, whatever other texts give
            self.refusals = why.diagnostics if name is None else self.refusals or why.diagnostics
            return
        if name is not None:
            found.changed, found.input_cost = True, price(self.function, self.target, self.default_trips).cost
            found.passes = [replace(p, prepared=(name, *p.prepared)) for p in found.passes]
        if known is None or found.cost < known.cost * (1 - 1e-9):
            self.best = found
        if known is not None and self.best is not None:
            self.best.lower_bound = min(self.best.lower_bound, found.lower_bound, known.lower_bound)


def _lower_once(
    function: Function,
    target: Target,
    aliased: tuple[tuple[str, str], ...],
    limits: Limits | None,
    default_trips: int,
    without: frozenset[str],
    choice_limits: ChoiceLimits,
    traced: bool,
    beat: float,
) -> Lowered:
    """One pass from encoding to allocation. Raises `_Dearer` where no choice costs less than `beat`."""
    found = refusals(function)
    if found:
        raise Refused(found)
    clock = Clock()
    text = prepared(function)
    if text.obstacles:
        raise Refused(window_diagnostics(function, text.obstacles))
    try:
        graph = saturated(text.function, aliased, limits, without, traced)
    except UnsoundRule as error:
        raise Refused([internal("X001", function, str(error))]) from error
    clock.lap("saturate")
    asked = ask(graph, target, default_trips)
    question, choices = asked.problem, asked.choices
    clock.lap("choose")
    decision = decide(question, choices, asked.bound, choice_limits)
    clock.lap("prove")
    if decision.bound >= beat * (1 - 1e-9):
        raise _Dearer
    before = price(function, target, default_trips)
    author = (function, before) if is_two_d(function) and not text.lifted else None
    best = fitted(question, choices, decision, author, Judge(question, target, default_trips, clock), choice_limits)
    passes = []
    if traced:
        passes = [Pass(function, target, default_trips, question, choices, decision, best.first, best, author, text.done)]
    cost, bound = best.price.cost, best.bound
    if cost < bound - 1e-9 * max(1.0, cost):
        # pages that turn out to be one tile are priced apart and written once: then only the skeleton is a sure bound
        bound = price(skeleton(text.function), target, default_trips).cost
    own = best.chosen is not None and all(question.candidates[i].own and not _by_pages(question, i) for i in best.chosen)
    settled = own and best.proved and best.chosen == decision.chosen and abs(cost - decision.cost) <= 1e-9 * max(1.0, cost)
    settled = settled and not _may_simplify(best.function)
    return Lowered(
        best.function, cost, before.cost, min(bound, cost), best.function is not function, best.price, best.allocation,
        len(graph.classes), _rows(graph), graph.report, clock.laps, settled, best.limit, passes,
    )  # fmt: skip


def _by_pages(question: Problem, i: int) -> bool:
    """True for candidates that make pages, which the next run sees as tiles of their own."""
    k = question.candidates[i]
    return k.c >= 0 and question.choice.options[k.c][k.option].node.name in FAMILIES


def _may_simplify(function: Function) -> bool:
    """True where a run on the 2-D types may find what the N-D types hid: a window that is the whole tile, a write that covers its target,
    a reshape that goes nowhere or back."""
    reshaped: set[str] = set()
    for s in walk(function.body):
        if not isinstance(s, Assign) or not isinstance(s.value, Call):
            continue
        if s.value.op in ("tile.slice", "tile.assemble", "tile.reinterpret_view"):
            return True
        if s.value.op == "tile.reshape":
            source = s.value.args[0]
            if isinstance(source, Var) and (
                source.name in reshaped or getattr(source.type, "shape", None) == getattr(s.target.type, "shape", ())
            ):
                return True
            reshaped.add(s.target.name)
    return False


def _rows(graph: Graph) -> int:
    return graph.node_count
