"""How one pass of lowering was decided, kept for those who ask why.

A pass begins with a function and a saturated e-graph. `free` is the cheapest choice of its problem while nothing was known of memories and
copies, `first` what came of it as a program; `best` is the choice that was taken. Where the two are the same, memory had no say.

What was done before the choice, so that there is more to choose from, is told by name: `accumulators.one-buffer` (both arms of a branch
write one accumulator), `accumulators.row-windows` (windows of rows of a 2-D accumulator become pages of a batch).
"""

from __future__ import annotations

from dataclasses import dataclass

from extract.choice import Choice
from extract.decide import Decision
from extract.fit import Fitted
from extract.price import Price
from extract.problem import Problem
from extract.target import Target
from extract.verdict import Verdict
from pypto_ir.stmt import Function

#: what may be done to a function where that is cheaper, beside what always is (`egraph_rules/prepared.py`)
PAGE_LOOPS, BATCH_LOOPS = "accumulators.page-loops", "products.batch-loops"


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass: the function that it began with, its problem, the greedy choices to start from, and the decisions. `author` is the
    author's program where that may stand."""

    function: Function
    target: Target
    default_trips: int
    question: Problem
    choices: list[Choice]
    free: Decision
    first: Verdict | None
    best: Fitted
    author: tuple[Function, Price] | None
    prepared: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        """True where the author's program stayed."""
        return self.best.function is self.function

    @property
    def chosen(self) -> list[int]:
        """The candidates of the program that was taken; none where the author's stayed."""
        return [] if self.kept or self.best.chosen is None else self.best.chosen
