"""Solves the equations of a program: from nothing upwards, then down again as far as they hold.

Optimistic: every fact starts as "never computed" and grows only as far as what reaches it. Loops and recursion are thereby proved by
induction: `acc = acc + 16` from 0 stays a multiple of 16 because the assumption proves itself. Where facts may grow without end they are
widened, and what that lost is won back by evaluating all nodes again, as long as every equation still holds.
"""

from __future__ import annotations

from heapq import heappop, heappush

from egraph_rules.index_domain import Fact, below, join, meet, widen
from egraph_rules.index_nodes import Node
from egraph_rules.index_system import System, closure

#: how often a fact may grow before it is widened, and how often all nodes are evaluated again
_PATIENCE, _ROUNDS = 4, 3


def solve(system: System) -> list[Fact | None]:
    """A fact for every node such that each holds whenever those that it follows from do."""
    facts, widened = _upwards(system)
    if not widened:
        return facts
    tight = list(facts)
    order = sorted(range(len(system.nodes)), key=system.order.__getitem__)
    for _ in range(_ROUNDS):
        changed = False
        for n in order:
            new = meet(tight[n], system.nodes[n].rule.evaluate(tight))
            changed = changed or new != tight[n]
            tight[n] = new
        if not changed:
            break
    return tight if holds(system.nodes, tight) else facts


def holds(nodes: list[Node], facts: list[Fact | None]) -> bool:
    """True where every fact follows from the others: an invariant of the program."""
    return all(below(node.rule.evaluate(facts), facts[n]) for n, node in enumerate(nodes))


def _upwards(system: System) -> tuple[list[Fact | None], bool]:
    """Facts from below, each node again whenever one that it follows from has grown; and whether one was widened."""
    nodes, order = system.nodes, system.order
    users = closure(nodes)
    facts: list[Fact | None] = [None] * len(nodes)
    grown = [0] * len(nodes)
    waiting = [(order[n], n) for n in range(len(nodes))]
    waiting.sort()
    queued = [True] * len(nodes)
    widened = False
    while waiting:
        _, n = heappop(waiting)
        queued[n] = False
        new = join(facts[n], nodes[n].rule.evaluate(facts))
        if new == facts[n]:
            continue
        grown[n] += 1
        if grown[n] > _PATIENCE and nodes[n].head:
            new = widen(facts[n], new)
            widened = True
        facts[n] = new
        for user in users[n]:
            if not queued[user]:
                queued[user] = True
                heappush(waiting, (order[user], user))
    return facts, widened


def extend(system: System, facts: list[Fact | None]) -> None:
    """Facts of nodes that were made after the others were solved, none of which depends on them."""
    for n in range(len(facts), len(system.nodes)):
        facts.append(system.nodes[n].rule.evaluate(facts))
