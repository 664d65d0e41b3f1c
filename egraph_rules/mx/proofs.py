"""What a proof about an offset is asked, and what a failed one says.

An offset of 48 on the block axis needs two proofs: it is a multiple of 16, and it is not negative (a negative offset of a partition is
clamped to 0, which silently reads the wrong box). A prover answers with None, or with the `Gap` at which its proof broke.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pypto_ir.diagnostics import Place
from pypto_ir.expr import Expr
from pypto_ir.stmt import Function, Stmt
from pypto_ir.text import expr_text
from pypto_ir.verify.places import StmtPath, place


@dataclass(frozen=True, slots=True)
class Where:
    """A statement of a program: the function that it is in, its path and itself."""

    function: Function
    path: StmtPath
    statement: Stmt

    @property
    def place(self) -> Place:
        return place(self.function, self.path, self.statement)


#: how many calls on the way to a gap are told
_SITES = 4


@dataclass(frozen=True, slots=True)
class Gap:
    """Where a proof broke: the expression, the function whose names it has, the best that is known of it, and the calls that lead
    there from the statement, the nearest first, in words. `reason` is what the prover cannot do, `whole` what is known of all of the
    offset."""

    expr: Expr | None
    function: str
    fact: str | None = None
    sites: tuple[str, ...] = ()
    reason: str | None = None
    whole: str | None = None

    def __str__(self) -> str:
        found = f"{expr_text(self.expr)} of {self.function}" if self.expr is not None else f"an argument of {self.function}"
        known = f", which is {self.fact}" if self.fact else ""
        whole = f"it is {self.whole}; " if self.whole and self.whole != self.fact else ""
        why = f" ({self.reason})" if self.reason else ""
        via = "".join(f", through {site}" for site in self.sites[:_SITES])
        via += f" and {len(self.sites) - _SITES} more" if len(self.sites) > _SITES else ""
        return f"{whole}the proof breaks at {found}{known}{why}{via}"


class Prover(Protocol):
    """Proofs about integer expressions at a statement, whatever the run of the program."""

    #: what the prover can follow, for the help of a refusal
    forms: str

    def divisible(self, at: Where, e: Expr, by: int) -> Gap | None:
        """None where `e` is always a multiple of `by`."""

    def non_negative(self, at: Where, e: Expr) -> Gap | None:
        """None where `e` is never negative."""

    def inside(self, at: Where, offset: Expr, size: int, extent: int) -> bool | None:
        """Whether [offset, offset + size) lies in [0, extent): True always, False never, None where it is not known."""

    def quotient(self, at: Where, e: Expr, by: int) -> Expr:
        """`e // by` as an index, where `e` is proved to be a non-negative multiple of `by`."""
