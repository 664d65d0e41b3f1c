"""What a run of the optimiser leaves for those who ask why: how every function was decided, or what refused it.

record = Record()
optimize(program, record=record)        fills it, also where it raises `Refused`
record.lowered["q_proj"].passes         the choices of function q_proj
"""

from __future__ import annotations

from dataclasses import dataclass, field

from extract.lower import Lowered
from pypto_ir.diagnostics import Diagnostic


@dataclass(slots=True)
class Record:
    """Functions by name, in program order: those that have a 2-D form, and the reasons of those that have none."""

    lowered: dict[str, Lowered] = field(default_factory=dict)
    refused: dict[str, tuple[Diagnostic, ...]] = field(default_factory=dict)
