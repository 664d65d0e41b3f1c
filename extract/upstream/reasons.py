"""What is said of an accumulator that cannot be packed by columns (`spec/flatten.md` 8.4): every cause has its code."""

from __future__ import annotations

from dataclasses import dataclass

from extract.upstream.packing import Packing
from pypto_ir.diagnostics import Diagnostic, Place, declare
from pypto_ir.stmt import Function, Stmt
from pypto_ir.verify.places import statement_text

declare(
    L420="upstream: row windows do not divide the rows of their accumulator",
    L421="upstream: an accumulator that is packed has no name",
    L422="upstream: pages of one accumulator differ in shape",
    L423="upstream: an accumulator that is packed has several allocations",
    L424="upstream: the element of an accumulator that is packed is not 4 bytes wide",
    L425="upstream: the rows of a page are no multiple of 16",
    L426="upstream: the columns of a page are no multiple of 16",
    L427="upstream: a packed accumulator is larger than L0C",
    L428="upstream: a packed accumulator is larger than L0C once its rows are aligned",
    L429="upstream: an accumulator that is packed reaches a parameter or a carry that cannot be retyped",
    L430="upstream: an accumulator that is packed changes its shape on the way",
    L431="upstream: an accumulator that is packed is only partly valid",
    L432="upstream: an accumulator that is packed has a MemRef",
    L433="upstream: an accumulator that is packed is stated to be in another memory than L0C",
    L434="upstream: an accumulator that is packed has no definition",
    L435="upstream: an accumulator that is packed is made by an op that does not write L0C",
    L436="upstream: a row window has another height, or an offset that is not known to be a multiple of it",
    L437="upstream: a row window is not written back to where it was read",
    L438="upstream: a store of a packed accumulator cannot be split by pages",
    L439="upstream: a packed accumulator is moved to Vec",
    L440="upstream: a packed accumulator is read as one flat tile",
)

_REMEDY = "write the batch loop out in the kernel with one 2-D tile for each page, or keep the accumulator at most 16 columns wide"
_ROWS = (
    "use acc[...] = pl.matmul_acc(acc[...], lhs, rhs, init_cond=...) with equal-size, aligned row windows of one locally allocated "
    "accumulator, and store the result after reduction"
)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a chain cannot be packed, and what to do about it. `geometry`: the message tells what packing needs; `forced`: narrow pages
    do not help."""

    code: str
    text: str
    help: str = _REMEDY
    geometry: bool = True
    forced: bool = False


def refused(function: Function, s: Stmt, plan: Packing, reason: Reason) -> Diagnostic:
    """The error of a chain that must be packed and cannot be."""
    place = Place(function=function.name, statement=statement_text(s), loc=s.loc)
    if plan.row_windows:
        return Diagnostic(reason.code, f"matmul_acc: cannot lower the shared accumulator's row slices because {reason.text}", place, _ROWS)
    message = (
        f"tile.batch_matmul_acc: cannot lower a batch-{plan.pages} accumulator of {plan.rows}x{plan.cols} {plan.dtype.value} pages, "
        f"because {reason.text}"
    )
    if reason.geometry:
        size = plan.pages * plan.rows * plan.cols * plan.dtype.bytes
        message += (
            f". The pages are packed along COLUMNS: one {plan.rows}x{plan.pages * plan.cols} Acc (L0C) tile with page b at "
            f"tile.slice(acc, [{plan.rows}, {plan.cols}], [0, b * {plan.cols}]), since the matrix unit writes a product without gaps and "
            f"cannot skip the rows between; this needs M and N to be multiples of 16, a 4-byte element, one buffer, and {size} bytes"
        )
    return Diagnostic(reason.code, message, place, reason.help)


def uneven(function: Function, s: Stmt, rows: int, height: int) -> Diagnostic:
    return Diagnostic(
        "L420",
        f"matmul_acc accumulator row windows must evenly divide the parent row extent; got {height} rows in a {rows}-row accumulator",
        Place(function=function.name, statement=statement_text(s), loc=s.loc),
        _ROWS,
    )
