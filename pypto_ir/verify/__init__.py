"""Checks of programs: SSA and scopes, types, the shape of lowered functions, linearity of buffers, accumulators."""

from __future__ import annotations

from pypto_ir.diagnostics import Diagnostic
from pypto_ir.stmt import Program
from pypto_ir.verify.accumulators import accumulators
from pypto_ir.verify.linearity import Violation, linearity, violations
from pypto_ir.verify.ssa import verify_ssa
from pypto_ir.verify.tiles2d import tile_ops_2d
from pypto_ir.verify.types import verify_types

__all__ = ["Violation", "accumulators", "linearity", "tile_ops_2d", "verify_program", "violations"]


def verify_program(program: Program) -> list[Diagnostic]:
    """Every violation of SSA form and typing in a program; types are looked at even where names are wrong."""
    return [*verify_ssa(program), *verify_types(program)]
