"""`tensor.gather` along an axis: read, typed and printed; without a meaning, since no source states it."""

from __future__ import annotations

import pytest

from pypto_ir.interp.machine import run
from pypto_ir.interp.values import RunError
from pypto_ir.printed.program_reader import read_text
from pypto_ir.printed.program_writer import write_text

TEXT = """# pypto.program: Gather
import pypto.language as pl

@pl.program
class Gather:
    @pl.function
    def main(self, x: pl.Tensor[[8, 64], pl.FP32], n: pl.Tensor[[8, 4], pl.INT32]) -> pl.Tensor[[8, 4], pl.FP32]:
        y: pl.Tensor[[8, 4], pl.FP32] = pl.tensor.gather(x, n, dim=-1)
        return y"""


def test_gather_along_an_axis_reads_and_prints_the_same() -> None:
    assert write_text(read_text(TEXT, "gather.py")) == TEXT


def test_gather_along_an_axis_is_not_guessed_at() -> None:
    with pytest.raises(RunError, match="dim") as caught:
        run(read_text(TEXT, "gather.py"), "main")
    assert caught.value.code == "R003"
