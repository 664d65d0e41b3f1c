"""From choices to the cheapest program that the target can hold.

The cheapest choice is written as a program. Where that does not fit its memories, or needs copies that the choice knows nothing of, what is
wrong with it becomes a condition of the choice, and the choice is made again, until the program costs what no other choice can fall below:
`x = load [8, 96, 128]`, `store(exp(x))` needs 768 KiB of Vec as flat tiles, and 96 KiB page by page.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from extract.allocate import Allocation
from extract.choice import Choice
from extract.decide import Decision, decide
from extract.effort import PROGRAM, STATEMENT, ChoiceLimits
from extract.exact import realized
from extract.plan import greedy_choices
from extract.price import Price
from extract.problem import Problem
from extract.ranking import Rankings
from extract.repair import linear
from extract.verdict import Judge, Verdict
from pypto_ir.diagnostics import Diagnostic, Place, Refused, declare
from pypto_ir.stmt import Function, walk

declare(L106="no choice was found in time")

#: choices that are written as programs, one after the other, for one that fits and is proved to be cheapest
TRIES = 1_000


@dataclass(frozen=True, slots=True)
class Fitted:
    """The cheapest program that was found, a lower bound of every one, the limit that ended the search, if any did, and whether the
    program is that of a proved choice of which `cost` is the cost. `first` is what came of the choice that was cheapest before memories
    and copies were looked at."""

    function: Function
    price: Price
    allocation: Allocation
    bound: float
    limit: str | None
    chosen: list[int] | None
    proved: bool
    first: Verdict | None = None


def fitted(
    question: Problem,
    choices: list[Choice],
    decision: Decision,
    author: tuple[Function, Price] | None,
    judge: Judge,
    limits: ChoiceLimits,
) -> Fitted:
    """The cheapest program of a problem that fits; `decision` is the cheapest choice, `author` the author's program where it may
    stand. Raises `Refused` with what is too large in the program that comes nearest where none fits."""
    run = _Run(question, judge, limits, decision)
    if author is not None:
        run.note(judge.placed(Verdict([]), *author))
    run.last = run.first = run.tried(decision.chosen)
    if run.last is not None and any(d.code.startswith("X") for d in run.last.faults):
        raise Refused(run.last.faults)
    if not run.done:
        for chosen in greedy_choices(question, choices):
            if len(realized(question, chosen)) == len(chosen):
                run.tried(chosen)
    run.search(choices)
    return run.result()


class _Run:
    """One search: what was written so far, the best of it, and what is known of the rest."""

    def __init__(self, question: Problem, judge: Judge, limits: ChoiceLimits, decision: Decision) -> None:
        self.question, self.judge, self.limits = question, judge, limits
        self.decision, self.bound, self.limit = decision, decision.bound, decision.limit
        self.verdicts: list[Verdict] = []
        self.best: Verdict | None = None
        self.nearest: Verdict | None = None
        self.first: Verdict | None = None
        self.last: Verdict | None = None
        self.known: set[tuple[int, ...]] = set()
        self.sure = True
        self.rankings = Rankings()

    def note(self, verdict: Verdict) -> None:
        """Take a program that fits if it is the cheapest so far, keep one that does not if it is nearest."""
        if verdict.allocation is not None and (self.nearest is None or verdict.excess < self.nearest.excess):
            self.nearest = verdict
        if verdict.fits and (self.best is None or _cost(verdict) < _cost(self.best)):
            self.best = verdict

    def tried(self, chosen: list[int]) -> Verdict | None:
        """Judge a choice, unless it is none or was judged before."""
        key = tuple(sorted(chosen))
        if (self.question.roots and not chosen) or key in self.known:
            return None
        self.known.add(key)
        verdict = self.judge.judge(chosen)
        self.limits.charge(PROGRAM + STATEMENT * (0 if verdict.function is None else sum(1 for _ in walk(verdict.function.body))))
        self.verdicts.append(verdict)
        self.note(verdict)
        return verdict

    @property
    def done(self) -> bool:
        """True where nothing can be cheaper than the best program."""
        return self.best is not None and _cost(self.best) - self.bound <= 1e-9 * max(1.0, _cost(self.best))

    def search(self, choices: list[Choice]) -> None:
        """Learn from what was written and choose again, until the best program is proved or a limit is hit."""
        learned = 0
        for _ in range(TRIES):
            if self.done:
                self.limit = None
                return
            fresh, learned = self.verdicts[learned:], len(self.verdicts)
            if not self.learn(fresh):
                return
            if self.limits.reached is not None:
                self.limit = self.limits.reached
                return
            known = [self.best.chosen] if self.best is not None and self.best.chosen else []
            found = decide(self.question, choices, self.bound if self.sure else 0.0, self.limits, known, self.rankings)
            self.judge.clock.lap("prove")
            self.limit = found.limit
            if found.proof == "infeasible":
                self.bound = _cost(self.best) if self.best is not None and self.sure else self.bound
                return
            if self.sure:
                self.bound = max(self.bound, found.bound)
            self.last = self.tried(found.chosen)
            if self.last is None:
                return
        self.limit = self.limit or f"{TRIES} choices"

    def learn(self, verdicts: list[Verdict]) -> bool:
        """Add what some verdicts say of other choices; False where the last choice is as good as it was thought to be, or where no
        choice is left."""
        conditions, grown = self.question.conditions, False
        for verdict in verdicts:
            lesson = self.judge.lesson(verdict)
            self.sure &= lesson.sure
            grown |= verdict is self.last and not lesson.nothing
            if any(cut.extra is None and not cut.candidates for cut in lesson.cuts):
                return False
            conditions.cuts += [cut for cut in lesson.cuts if cut.candidates and cut not in conditions.cuts]
            conditions.rows += [row for row in lesson.rows if row not in conditions.rows]
        return grown

    def result(self) -> Fitted:
        """The best program. Raises `Refused` where there is none."""
        best = self.best
        if best is None:
            raise Refused(self.faults())
        assert best.function is not None and best.price is not None and best.allocation is not None
        chosen = best.chosen if best.origins else None
        return Fitted(best.function, best.price, best.allocation, self.bound, self.limit, chosen, self.done, self.first)

    def faults(self) -> list[Diagnostic]:
        """Why nothing fits: what is too large in the program that comes nearest, else what makes it no program. A tile that the author
        reads too late is named where he does, whatever was chosen, so that no limit decides who is blamed."""
        if self.nearest is not None:
            return self.nearest.faults if self.limit is None else [_unsure(d, self.limit) for d in self.nearest.faults]
        if self.verdicts:
            faults = self.verdicts[-1].faults
            late = all(d.code == "V202" for d in faults)
            return (linear(self.question.graph.encoded.function)[1] if late else []) or faults
        place = Place(function=self.question.graph.encoded.function.name)
        return [Diagnostic("L106", "no choice was found in the time that the solver had", place, "give it more time")]


def _cost(verdict: Verdict) -> float:
    assert verdict.price is not None
    return verdict.price.cost


def _unsure(d: Diagnostic, limit: str) -> Diagnostic:
    """What is too large in a program, where a limit ended the search for one that fits."""
    return replace(d, help=f"{d.help}; or raise the limit of the choice: it stopped at {limit}, and what was not tried may fit")
