"""Small e-graphs of index expressions with true facts, saturated and held against numbers.

Values x0, x1, x2 take a few numbers of eight bits; what is built of them is computed for all of these, with floor and with truncating
division, and the facts are what these numbers have: least, greatest, common divisor, which operations wrap. After saturation every
member of a class must have the numbers of the class.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from functools import reduce
from math import gcd
from typing import Any

from egraph_rules.engine import Commands, Engine, Frozen, Limits

#: numbers of one value, by assignment and way of division
Numbers = tuple[int, ...]
Tree = Any  # "x0", an integer, or (operation, left, right)

_NODES = {"+": "Sum", "-": "Less", "*": "Times", "//": "Quot", "%": "Rest"}
_EXACT = {"+": "exact-sum", "-": "exact-difference", "*": "exact-product"}
_WORLDS = 6


class WrongUnion(AssertionError):
    """A rule united what differs, or said what is not so."""


def wrap(n: int) -> int:
    return (n + 128) % 256 - 128


def exact(op: str, a: int, b: int, floor: bool) -> int:
    if op in ("//", "%"):
        quotient = a // b if floor or (a < 0) == (b < 0) else -(abs(a) // abs(b))
        return quotient if op == "//" else a - quotient * b
    return {"+": a + b, "-": a - b, "*": a * b}[op]


def evaluate(op: str, a: Numbers, b: Numbers) -> Numbers | None:
    """The numbers of an operation; the first half is with floor division. None for a division by 0."""
    if op in ("//", "%") and 0 in b:
        return None
    return tuple(wrap(exact(op, x, y, i < len(a) // 2)) for i, (x, y) in enumerate(zip(a, b, strict=True)))


def never_wraps(op: str, a: Numbers, b: Numbers) -> bool:
    return all(-128 <= exact(op, x, y, True) <= 127 for x, y in zip(a, b, strict=True))


class Instance:
    """One e-graph being built from trees."""

    def __init__(self, source: random.Random) -> None:
        self.commands = Commands()
        self.leaves = {f"x{i}": self._numbers(source) for i in range(3)}
        self._made: dict[Tree, tuple[Any, Numbers] | None] = {}

    @staticmethod
    def _numbers(source: random.Random) -> Numbers:
        step = source.choice((1, 1, 2, 4, 8, 16))
        low, high = source.choice(((0, 7), (0, 3), (-8, 8), (-128 // step, 127 // step), (0, 127 // step)))
        once = [wrap(step * source.randint(low, high)) for _ in range(_WORLDS)]
        return (*once, *once)

    def add(self, tree: Tree) -> tuple[Any, Numbers] | None:
        """Put a tree and its facts into the e-graph; its term and its numbers."""
        if tree not in self._made:
            self._made[tree] = self._add(tree)
        return self._made[tree]

    def _add(self, tree: Tree) -> tuple[Any, Numbers] | None:
        commands = self.commands
        if isinstance(tree, int):
            return commands.call("Known", tree), (tree,) * 2 * _WORLDS
        if isinstance(tree, str):
            term, numbers = commands.call("Named", int(tree[1:])), self.leaves[tree]
        else:
            op, left, right = tree
            a, b = self.add(left), self.add(right)
            if a is None or b is None:
                return None
            found = evaluate(op, a[1], b[1])
            if found is None or (op in ("//", "%") and not (isinstance(right, int) and right > 0)):
                return None
            term, numbers = commands.call(_NODES[op], a[0], b[0]), found
            if op in _EXACT and never_wraps(op, a[1], b[1]):
                commands.fact(_EXACT[op], a[0], b[0])
        commands.set("low", term, min(numbers))
        commands.set("high", term, max(numbers))
        commands.set("multiple", term, reduce(gcd, numbers))
        commands.set("greatest", term, 127)
        return term, numbers

    def check(self, frozen: Frozen) -> None:
        """Every member of a class has the numbers of the class, and every fact is true. Raises `WrongUnion`."""
        known: dict[int, Numbers] = {}

        def meet(out: int, numbers: Numbers, what: str) -> bool:
            if out in known and known[out] != numbers:
                raise WrongUnion(f"{what}: {known[out]} and {numbers} are one class")
            fresh = out not in known
            known[out] = numbers
            return fresh

        for (n,), out in frozen.rows["Known"]:
            meet(out, (wrap(n),) * 2 * _WORLDS, f"Known {n}")
        for (n,), out in frozen.rows["Named"]:
            meet(out, self.leaves[f"x{n}"], f"x{n}")
        rows = [(op, inputs, out) for op, name in _NODES.items() for inputs, out in frozen.rows[name]]
        changed = True
        while changed:
            changed = False
            for op, (a, b), out in rows:
                if a in known and b in known and (found := evaluate(op, known[a], known[b])) is not None:
                    changed |= meet(out, found, f"{op} of {known[a]} and {known[b]}")
        self._facts(frozen, known)

    @staticmethod
    def _facts(frozen: Frozen, known: dict[int, Numbers]) -> None:
        tests = {
            "low": lambda n, v: v <= min(n),
            "high": lambda n, v: v >= max(n),
            "multiple": lambda n, v: all(x % v == 0 if v else x == 0 for x in n),
        }
        for name, test in tests.items():
            for (c,), value in frozen.rows[name]:
                if c in known and not test(known[c], value):
                    raise WrongUnion(f"{name} of {known[c]} is said to be {value}")
        for op, name in _EXACT.items():
            for (a, b), _ in frozen.rows[name]:
                if a in known and b in known and not never_wraps(op, known[a], known[b]):
                    raise WrongUnion(f"{known[a]} {op} {known[b]} is said not to wrap")


def trees(source: random.Random) -> Iterator[Tree]:
    """Quotients of the shapes that rules are about, of values and constants that meet their conditions about half of the time."""
    x, y = source.sample(("x0", "x1", "x2"), 2)
    d, k = source.choice((1, 2, 4, 8, 16, 3)), source.choice((1, 2, 4, 3))
    inner = source.choice((x, ("*", x, d), ("*", x, k), ("+", x, y), ("//", x, k)))
    other = source.choice((y, ("*", y, d), ("*", y, k)))
    yield ("//", ("*", inner, d * k if d * k <= 127 else d), d)
    yield ("//", ("*", inner, k), wrap(d * k) if 0 < d * k <= 127 else d)
    yield ("//", ("+", inner, other), d)
    yield ("//", ("+", ("*", x, d), other), d)
    yield ("//", ("+", other, ("*", x, d)), d)
    yield ("//", ("-", inner, other), d)
    yield ("//", ("-", ("*", x, d), ("*", y, d)), d)
    yield ("//", ("//", inner, d), k)
    yield ("//", ("//", inner, 16), 16)
    yield ("//", inner, 100)
    yield ("//", ("-", inner, ("%", inner, d)), d)
    yield ("*", ("//", inner, d), d)
    yield ("%", inner, d)


#: how often rules fired over all instances of a run, for tests that each does
FIRED: Counter[str] = Counter()


def check_instances(engine: Engine, count: int, seed: int = 1) -> None:
    """Saturate random instances and hold them against their numbers. Raises `WrongUnion`."""
    source = random.Random(seed)
    for _ in range(count):
        instance = Instance(source)
        for tree in trees(source):
            made = instance.add(tree)
            if made is not None:
                instance.commands.fact("wanted", made[0])
        with engine.session() as session:
            session.run(instance.commands)
            report = session.saturate(Limits(nodes=20_000, seconds=5, iterations=32))
            FIRED.update(report.rules_fired)
            instance.check(session.freeze())
