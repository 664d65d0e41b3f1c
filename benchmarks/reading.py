"""How long printed programs of the size of real pass dumps take to read and to write, beside `ast.parse` of the same text.

`printed_program(50, 20)` is 1 MB of text: 50 in-core functions with 20 loops of nine lines each (load, cast, scale, add, store),
with a carried tensor. Reading a text that is four times as long takes four times as long where the time per byte stays: a ratio of 1.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.performance import Row, alternating

#: functions, and groups of statements in each, of a text of 1 MB
FUNCTIONS, GROUPS = 50, 20
#: how much slower than in proportion a longer text may be; a quadratic part would give 4
LINEAR = 1.5
_HEAD = '# pypto.program: Dump\nimport pypto.language as pl\n\nM = pl.dynamic("M")\n\n@pl.program\nclass Dump:\n'
_TENSOR, _TILE = "pl.Tensor[[M, 64], pl.FP32]", "pl.Tile[[16, 64], pl.FP32, pl.Mem.Vec]"


def printed_program(functions: int | None = None, groups: int = GROUPS) -> str:
    """A canonical text of so many functions, of about 20 kB each at 20 groups."""
    return _HEAD + "\n".join(_function(f"kernel_{n:02}", groups) for n in range(FUNCTIONS if functions is None else functions))


def _function(name: str, groups: int) -> str:
    lines = [
        "    @pl.function(type=pl.FunctionType.InCore, level=pl.Level.CHIP_DIE, role=pl.Role.SubWorker)",
        f"    def {name}(x: pl.Tensor[[M, 64], pl.BF16], s: pl.Scalar[pl.FP32], out: pl.Out[{_TENSOR}]) -> {_TENSOR}:",
    ]
    last = "out"
    for g in range(groups):
        ready = last
        last = f"st__rv_v{g}"
        lines += [
            f"        # block {g}",
            f"        for i__idx_v{g}, (o__iter_v{g},) in pl.range(0, M, 16, init_values=({ready},)):",
            f"            v__ssa_v{g}: pl.Scalar[pl.INDEX] = pl.min(16, M - i__idx_v{g})",
            f"            a__ssa_v{g}: {_valid('BF16', g)} = pl.tile.load(x, [i__idx_v{g}, 0], [16, 64], [v__ssa_v{g}, 64], "
            "target_memory=pl.Mem.Vec)",
            f"            b__ssa_v{g}: {_valid('FP32', g)} = pl.tile.cast(a__ssa_v{g}, target_type=pl.FP32, mode='round')",
            f"            c__ssa_v{g}: {_valid('FP32', g)} = pl.tile.muls(b__ssa_v{g}, s)",
            f"            d__ssa_v{g}: {_valid('FP32', g)} = pl.tile.add(c__ssa_v{g}, b__ssa_v{g})",
            f"            st__ssa_v{g}: {_TENSOR} = pl.tile.store(d__ssa_v{g}, [i__idx_v{g}, 0], o__iter_v{g})",
            f"            {last}: {_TENSOR} = pl.yield_(st__ssa_v{g})",
        ]
    return "\n".join([*lines, f"        return {last}"])


def _valid(dtype: str, g: int) -> str:
    return f"pl.Tile[[16, 64], pl.{dtype}, pl.Mem.Vec, pl.TileView(valid_shape=[v__ssa_v{g}, 64])]"


def reading(rounds: int) -> Iterator[Row]:
    """Reading and writing 1 MB beside Python's parser, and the time per byte beside that of shorter texts."""
    from pypto_ir.printed.program_reader import read_printed, read_text
    from pypto_ir.printed.program_writer import write_text

    text = printed_program()
    shorter = {
        "a quarter of the functions": printed_program(FUNCTIONS // 4),
        "functions a quarter as long": printed_program(groups=GROUPS // 4),
    }
    # no program is alive while reading is measured: collecting garbage would cost the parser more
    parsed, read, *reads = alternating(
        rounds,
        lambda: ast.parse(text),
        lambda: read_printed(text),
        *(lambda t=t: read_printed(t) for t in shorter.values()),  # type: ignore[misc]
    )
    programs = [read_text(t) for t in (text, *shorter.values())]
    written, *writes = alternating(rounds, *(lambda p=p: write_text(p) for p in programs))  # type: ignore[misc]
    title = f"printed text of {len(text) / 1e6:.2f} MB and {FUNCTIONS} functions"
    yield Row(f"{title}: reading", f"{read * 1e3:.0f} ms", f"`ast.parse` {parsed * 1e3:.0f} ms", read / parsed, 6.0)
    yield Row(f"{title}: writing", f"{written * 1e3:.0f} ms", f"`ast.parse` {parsed * 1e3:.0f} ms", written / parsed, None)
    for does, whole, found in (("reading", read, reads), ("writing", written, writes)):
        for (what, t), time in zip(shorter.items(), found, strict=True):
            per, base = whole / len(text) * 1e9, time / len(t) * 1e9
            yield Row(f"{does} 1 kB of it over 1 kB of {what}", f"{per:.0f} µs", f"{base:.0f} µs", per / base, LINEAR)
