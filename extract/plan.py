"""A plan: the chosen candidates, arranged for emission.

`options[(c, r)]` is the option of class c that region r materialises, before statement `places[(c, r)]`; `reads[((c, r), d)]` is the
region whose instance of class d it reads, `serves[(c, r, p)]` that for what the skeleton wants before statement p of region r; `due[p]`
are the classes that must stand before statement p because a region inside it reads them first; `forms[h]` is how handover h is carried.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from extract.choice import FORMS, Choice, Form, Option
from extract.exact import realized
from extract.problem import Candidate, Demand, Problem, handover_class, handover_of
from extract.regions import Regions


@dataclass(slots=True)
class Plan:
    """What is materialised where."""

    regions: Regions
    options: dict[tuple[int, int], Option] = field(default_factory=dict)
    places: dict[tuple[int, int], int] = field(default_factory=dict)
    reads: dict[tuple[tuple[int, int], int], int] = field(default_factory=dict)
    serves: dict[tuple[int, int, int], int] = field(default_factory=dict)
    due: dict[int, list[int]] = field(default_factory=dict)
    forms: dict[int, tuple[Form, ...]] = field(default_factory=dict)

    def serving(self, c: int, region: int, position: int) -> int:
        """The region whose instance of class c serves a demand; the nearest around that has one where nothing is planned."""
        found = self.serves.get((c, region, position))
        if found is None:
            found = next((r for r in self.regions.ancestors(region) if (c, r) in self.options), region)
        return found


def plan(problem: Problem, chosen: list[int]) -> Plan:
    """Arrange chosen candidates for emission."""
    result = Plan(problem.regions)
    members = set(chosen)
    for i in chosen:
        k = problem.candidates[i]
        if k.c >= 0:
            result.options[(k.c, k.region)] = problem.choice.options[k.c][k.option]
            result.places[(k.c, k.region)] = k.position
    for h in range(len(problem.graph.encoded.handovers)):
        forms = (problem.candidates[i] for i in problem.by_class.get(handover_class(h), ()) if i in members)
        result.forms[h] = tuple(FORMS[k.option] for k in forms)
    ranks = {i: rank for rank, i in enumerate(realized(problem, chosen))}
    wanted: list[tuple[Demand, int | None]] = [(d, None) for d in problem.roots]
    for i in chosen:
        wanted += [(d, i) for d in problem.candidates[i].demands]
        wanted += [(d, None) for d in problem.candidates[i].obligations]
    first: dict[int, Demand] = {}
    for d, user in wanted:
        server = _server(problem, ranks, d, len(ranks) if user is None else ranks.get(user, len(ranks)))
        if server is None or d.c < 0:
            continue
        k = problem.candidates[server]
        if user is None:
            result.serves[(d.c, d.region, d.position)] = k.region
        else:
            result.reads[((problem.candidates[user].c, problem.candidates[user].region), d.c)] = k.region
        known = first.get(server)
        if known is None or _at(problem, k, d) < _at(problem, k, known):
            first[server] = d
    for server, d in sorted(first.items()):
        k = problem.candidates[server]
        if k.c >= 0 and d.region != k.region:
            result.due.setdefault(_at(problem, k, d), []).append(k.c)
    return result


def _at(problem: Problem, k: Candidate, d: Demand) -> int:
    return problem.regions.lifted(d.region, d.position, k.region)


def _server(problem: Problem, ranks: dict[int, int], d: Demand, rank: int) -> int | None:
    """The chosen candidate that serves a demand: of those that can be computed before its reader, that of the innermost region."""
    serving = [j for j in problem.servers(d) if ranks.get(j, rank) < rank]
    return max(serving, key=lambda j: (problem.regions.items[problem.candidates[j].region].depth, -j), default=None)


def greedy_choices(problem: Problem, choices: list[Choice]) -> list[list[int]]:
    """The candidates of greedy choices, each once: values where the author computes them, and, where a loop computes one anew in every
    trip, as far outside as may be."""
    found: dict[tuple[int, ...], None] = {}
    loops = any(region.loop for region in problem.regions.items)
    for choice in choices:
        for outside in (False, True) if loops else (False,):
            found[tuple(greedy(problem, choice, outside))] = None
    return [list(chosen) for chosen in found]


def greedy(problem: Problem, choice: Choice, outside: bool = False) -> list[int]:
    """The candidates of a greedy choice: best options, where the author computes the value or as near to the use as may be; with
    `outside` where it is computed least often."""
    chosen: dict[int, None] = {}
    made: set[tuple[int, int]] = set()
    stack = list(reversed(problem.roots))
    while stack:
        d = stack.pop()
        servers = problem.servers(d)
        if any(j in chosen for j in servers):
            continue
        if d.c < 0:
            wanted = {FORMS.index(f) for f in choice.forms.get(handover_of(d.c), FORMS[:1])}
            picked = [j for j in servers if problem.candidates[j].option in wanted] or servers
        else:
            free = [j for j in servers if (d.c, problem.candidates[j].region) not in made] or servers
            picked = [min(free, key=lambda j: _preference(problem, choice, j, outside))]
        for j in picked:
            if j not in chosen:
                chosen[j] = None
                k = problem.candidates[j]
                made.add((k.c, k.region))
                stack.extend(reversed((*k.demands, *k.obligations)))
    return list(chosen)


def _preference(problem: Problem, choice: Choice, j: int, outside: bool) -> tuple[int, float, bool, int]:
    k = problem.candidates[j]
    node = problem.choice.options[k.c][k.option].node
    ranks = [o.node for o in choice.options.get(k.c, ())]
    rank = ranks.index(node) if node in ranks else len(ranks)
    region = problem.regions.items[k.region]
    return rank, region.trips if outside else 0.0, not k.own, -region.depth
