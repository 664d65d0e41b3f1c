"""A problem in parts: regions that share no candidate's reads are chosen for apart.

Two loops that only hand a tensor on to each other have nothing to decide together: neither pipe loads nor tiles of one matter to the other,
unless a condition is on candidates of both.
A function of 28 such loops is 28 small problems instead of one large one, and their costs add up. Static code is all one: it parts only
where every choice has more instructions than are cached, so that each costs the same, or none has.
"""

from __future__ import annotations

from dataclasses import replace

from extract.cycles import objective
from extract.problem import Demand, Problem
from extract.target import FREE_CODE, Code


def parts(problem: Problem) -> list[Problem]:
    """The problem cut into parts with candidates, in order of their first region; one part where everything hangs together. A part has
    the loads of its own regions only, and pays for all of its code, or for none."""
    code = _code_of_parts(problem)
    if code is None:
        return [problem]
    top = list(range(len(problem.regions.items)))

    def find(r: int) -> int:
        while top[r] != r:
            top[r] = top[top[r]]
            r = top[r]
        return r

    for members in problem.by_class.values():
        for i in members:
            k = problem.candidates[i]
            for d in (*k.demands, *k.obligations):
                for j in problem.servers(d):
                    top[find(problem.candidates[j].region)] = find(k.region)
    for d in problem.roots:
        for j in problem.servers(d):
            top[find(problem.candidates[j].region)] = find(d.region)
    for joined in (*(cut.candidates for cut in problem.conditions.cuts), *(row.candidates for row in problem.conditions.rows)):
        first, *others = (problem.candidates[i].region for i in sorted(joined))
        for r in others:
            top[find(r)] = find(first)
    groups: dict[int, list[int]] = {}
    for r in range(len(top)):
        groups.setdefault(find(r), []).append(r)
    if len(groups) == 1:
        return [problem]
    classes: dict[int, dict[int, list[int]]] = {}
    for c, members in problem.by_class.items():
        for i in members:
            classes.setdefault(find(problem.candidates[i].region), {}).setdefault(c, []).append(i)
    roots: dict[int, list[Demand]] = {}
    for d in problem.roots:
        roots.setdefault(find(d.region), []).append(d)
    result = []
    for first, group in groups.items():
        if first in classes:
            by_class, loads = classes[first], {r: problem.loads[r] for r in group if r in problem.loads}
            conditions = problem.conditions.within({i for members in by_class.values() for i in members})
            part = replace(problem, by_class=by_class, roots=roots.get(first, []), loads=loads, conditions=conditions, code=code)
            result.append(part)
    return result


def rest(problem: Problem, pieces: list[Problem]) -> float:
    """What the regions that no part covers cost: regions without candidates; less the code that parts pay for although it is cached."""
    covered = {r for piece in pieces for r in piece.loads}
    code = _code_of_parts(problem) or problem.code
    paid_for = code.fetch * problem.code.cached
    return objective(((problem.regions.items[r].trips, load) for r, load in problem.loads.items() if r not in covered), code) - paid_for


def _code_of_parts(problem: Problem) -> Code | None:
    """What each part pays for its code, None where that depends on the others."""
    code = problem.code
    if not code.fetch:
        return FREE_CODE
    most = sum(load.code for load in problem.loads.values()) + sum(
        cycles.code for cut in problem.conditions.cuts for _, cycles in cut.extra or ()
    )
    made: dict[tuple[int, int], float] = {}
    for members in problem.by_class.values():
        for i in members:
            k = problem.candidates[i]
            made[(k.c, k.region)] = max(made.get((k.c, k.region), 0.0), k.cycles.code)
    if most + sum(made.values()) <= code.cached:
        return FREE_CODE
    return replace(code, cached=0) if problem.surely >= code.cached else None
