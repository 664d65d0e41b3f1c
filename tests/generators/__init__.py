"""Random in-core programs that are well typed by construction, and the property that optimising must keep.

    program = random_program(random.Random(7))
    outcome = check(program)

`random_program` asks its source only for `randrange`, so any object with that method works: `random.Random`
for long runs, `hypothesis.strategies.randoms()` for runs that shrink. Small draws stand for simple programs.
"""

from __future__ import annotations

from tests.generators.accumulators import random_accumulators
from tests.generators.batched import random_batched
from tests.generators.edges import random_edges
from tests.generators.lowered_accumulators import check_accumulators
from tests.generators.program import random_program
from tests.generators.property import Failure, Outcome, check

__all__ = ["Failure", "Outcome", "check", "check_accumulators", "random_accumulators", "random_batched", "random_edges", "random_program"]
