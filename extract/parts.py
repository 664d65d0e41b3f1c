"""A problem in parts: regions that share no candidate's reads are chosen for apart.

Two loops that only hand a tensor on to each other have nothing to decide together: neither pipe loads nor tiles of one matter to the other,
unless a condition is on candidates of both.
A function of 28 such loops is 28 small problems instead of one large one, and their costs add up.
"""

from __future__ import annotations

from dataclasses import replace

from extract.cycles import ZERO, objective
from extract.problem import Problem


def parts(problem: Problem) -> list[Problem]:
    """The problem cut into parts with candidates, in order of their first region; one part where everything hangs together. A part has
    the loads of its own regions only."""
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
    result = []
    for group in groups.values():
        inside = set(group)
        by_class = {c: [i for i in members if problem.candidates[i].region in inside] for c, members in problem.by_class.items()}
        by_class = {c: members for c, members in by_class.items() if members}
        if by_class:
            loads = [load if r in inside else ZERO for r, load in enumerate(problem.loads)]
            roots = [d for d in problem.roots if d.region in inside]
            conditions = problem.conditions.within({i for members in by_class.values() for i in members})
            result.append(replace(problem, by_class=by_class, roots=roots, loads=loads, conditions=conditions))
    return result


def rest(problem: Problem, pieces: list[Problem]) -> float:
    """What the regions that no part covers cost: regions without candidates."""
    covered = {r for piece in pieces for r, load in enumerate(piece.loads) if load is not ZERO or _holds(piece, r)}
    return objective(
        (r.trips, load) for i, (r, load) in enumerate(zip(problem.regions.items, problem.loads, strict=True)) if i not in covered
    )


def _holds(piece: Problem, region: int) -> bool:
    return any(piece.candidates[i].region == region for members in piece.by_class.values() for i in members)
