"""The regions of a function, and what each point of it sees.

A region is a block that runs as a whole: the body, a loop's body, an arm of a branch. Statements are numbered in program order; statement
p of region r sees a name that is defined before p in r or in a region around r. In

    0  x = load(..)          region 0
    1  for k:                region 0; its body is region 1
    2      y = muls(x, k)    region 1 sees x and k
    3  (end of the loop)     results are seen from here on

`lifted(1, 2, 0)` is 1: seen from region 0, statement 2 happens in statement 1.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from egraph_rules.buffers import Versions, written
from egraph_rules.entries import Encoded
from extract.price import ARM_TRIPS
from extract.trips import DEFAULT_TRIPS, Interval, interval, loop_range, nested, parameter_ranges, surely_runs, trips
from pypto_ir.expr import Expr, Var, variables
from pypto_ir.stmt import Assign, Block, Break, Call, Continue, For, FunctionCall, If, Scope, Stmt, Submit, While, walk
from pypto_ir.types import ScalarType, type_exprs


@dataclass(slots=True)
class Region:
    """`owner` is the position of the statement that holds the block in region `parent`, `end` that behind its last statement; `trips`
    are the runs for one run of the function; `sure` tells that it runs through at least once whenever its parent does, `loop` that it is a
    loop's body."""

    parent: int
    owner: int
    depth: int
    trips: float
    sure: bool
    loop: bool
    end: int = 0


@dataclass(slots=True)
class Regions:
    """Regions, positions and visibility of one function."""

    encoded: Encoded
    items: list[Region] = field(default_factory=list)
    position: dict[int, int] = field(default_factory=dict)
    region: dict[int, int] = field(default_factory=dict)
    blocks: dict[tuple[int, int], int] = field(default_factory=dict)
    defined: dict[str, tuple[int, int]] = field(default_factory=dict)
    _changes: list[int] = field(default_factory=list)
    _versions: list[dict[str, int]] = field(default_factory=list)
    _since: dict[int, int] = field(default_factory=dict)

    def ancestors(self, r: int) -> list[int]:
        """The region and those around it, innermost first."""
        result = [r]
        while r:
            r = self.items[r].parent
            result.append(r)
        return result

    def inside(self, r: int, outer: int) -> bool:
        """True where `outer` is r or a region around it."""
        while self.items[r].depth > self.items[outer].depth:
            r = self.items[r].parent
        return r == outer

    def loop(self, r: int) -> int:
        """The innermost loop's body around a region, 0 where there is none."""
        while r and not self.items[r].loop:
            r = self.items[r].parent
        return r

    def lifted(self, r: int, p: int, outer: int) -> int:
        """The position in `outer`, a region around r, of the statement in which position p of r lies."""
        while r != outer:
            p, r = self.items[r].owner, self.items[r].parent
        return p

    def sees(self, r: int, p: int, e: Expr) -> bool:
        """True where every name in an expression is visible before statement p of region r."""
        for v in variables(e):
            at = self.defined.get(v.name)
            if at is not None and not (at[1] < p and self.inside(r, at[0])):
                return False
        return True

    def since(self, reads: tuple[tuple[str, int], ...]) -> int:
        """The first position at which all of the buffer versions `reads` have been written."""
        return max((self._since.get(version, 0) for _, version in reads), default=0)

    def current(self, p: int, tensor: Expr, reads: tuple[tuple[str, int], ...]) -> bool:
        """True where a load before statement p reads the buffer versions `reads`."""
        seen = Versions(self.encoded.buffers)
        seen.restore(self._versions[bisect_right(self._changes, p) - 1])
        return seen.of(tensor) == reads


def regions(encoded: Encoded, default_trips: int = DEFAULT_TRIPS) -> Regions:
    """Number the statements of a function and measure its regions. Versions are numbered as the encoder numbers them."""
    walk = _Walk(Regions(encoded), Versions(encoded.buffers), default_trips, dict(parameter_ranges(encoded.function)))
    walk.out.items.append(Region(0, -1, 0, 1.0, True, False))
    for param in encoded.function.params:
        walk.out.defined[param.var.name] = (0, -1)
    walk.note()
    walk.block(encoded.function.body, 0)
    walk.out.items[0].end = walk.next
    return walk.out


@dataclass(slots=True)
class _Walk:
    out: Regions
    versions: Versions
    default_trips: int
    ranges: dict[str, Interval]
    next: int = 0

    def note(self) -> None:
        """Versions as they are from the next statement on."""
        out = self.out
        if out._changes and out._changes[-1] == self.next:
            out._versions[-1] = self.versions.snapshot()
        else:
            out._changes.append(self.next)
            out._versions.append(self.versions.snapshot())

    def bump(self, names: tuple[str, ...]) -> None:
        if names:
            self.versions.bump(names)
            self.note()
            for name in names:
                self.out._since[self.out._versions[-1][name]] = self.next

    def block(self, statements: Block, r: int) -> None:
        for s in statements:
            self.statement(s, r)

    def nested(self, s: Stmt, arm: int, block: Block, r: int, runs: float, sure: bool, seen: tuple[Var, ...]) -> None:
        out = self.out
        number = len(out.items)
        out.blocks[(id(s), arm)] = number
        out.items.append(
            Region(r, out.position[id(s)], out.items[r].depth + 1, nested(out.items[r].trips, runs), sure, not isinstance(s, If))
        )
        for var in seen:
            out.defined[var.name] = (number, out.position[id(s)])
        self.block(block, number)
        out.items[number].end = self.next

    def results(self, results: tuple[Var, ...], r: int) -> None:
        for var in results:
            self.out.defined[var.name] = (r, self.next)
        self.next += 1

    def statement(self, s: Stmt, r: int) -> None:
        out = self.out
        out.position[id(s)], out.region[id(s)] = self.next, r
        self.next += 1
        touched = written(s, out.encoded.buffers)
        match s:
            case For(var=var, body=body, carries=carries, results=results):
                count = trips(s, self.ranges, self.default_trips)
                bounds = loop_range(s, self.ranges)
                self.ranges[var.name] = bounds
                self.bump(touched)
                self.nested(s, 0, body, r, count, _runs(s, self.ranges), (var, *(c.var for c in carries)))
                self.bump(touched)
                self.results(results, r)
            case While(body=body, carries=carries, results=results):
                self.bump(touched)
                self.nested(s, 0, body, r, self.default_trips, False, tuple(c.var for c in carries))
                self.bump(touched)
                self.results(results, r)
            case If(then=then, orelse=orelse, results=results):
                before = self.versions.snapshot()
                for arm, block in enumerate((then, orelse or ())):
                    self.versions.restore(before)
                    self.note()
                    self.nested(s, arm, block, r, ARM_TRIPS, False, ())
                self.versions.restore(before)
                self.note()
                self.bump(touched)
                self.results(results, r)
            case Scope(var=var, body=body):
                if var is not None:
                    out.defined[var.name] = (r, out.position[id(s)])
                self.block(body, r)
            case Assign(targets=targets, value=value):
                for target in targets:
                    out.defined[target.name] = (r, out.position[id(s)])
                    if isinstance(target.type, ScalarType) and not isinstance(value, Call | FunctionCall | Submit):
                        found = interval(value, self.ranges)
                        if found != (None, None):
                            self.ranges[target.name] = found
                self.bump(touched)
            case _:
                self.bump(touched)


def _runs(s: For, ranges: dict[str, Interval]) -> bool:
    """True where the body of a loop provably runs through at least once."""
    return surely_runs(s, ranges) and not any(isinstance(inner, Break | Continue) for inner in walk(s.body))


def free_dims(encoded: Encoded) -> set[str]:
    """Dynamic dims of the signature, which every point sees."""
    exprs = [e for p in encoded.function.params for e in type_exprs(p.var.type)]
    return {v.name for e in exprs for v in variables(e)}
