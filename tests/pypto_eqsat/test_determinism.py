"""The same input gives the same bytes: in one process, and where strings are hashed in different ways."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import SHARED, kernel

from pypto_eqsat.driver import optimize
from pypto_ir.json_writer import write_program

ROOT = Path(__file__).parents[2]
KERNELS = tuple(sorted(file.stem for file in (SHARED / "kernels").glob("*.json")))
LOWERED = ("add_3d", "assemble_pages", "kv_cache_write", "rmsnorm_4d", "softmax_tail_4d")

#: lowers every kernel without interpretation and prints the results, their statistics, and refusals
_SCRIPT = """
import sys
from pathlib import Path
from pypto_eqsat.driver import optimize
from pypto_ir.diagnostics import Refused
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program
for file in map(Path, sys.argv[1:]):
    try:
        result = optimize(read_program(file.read_text(), file.name), validate=False)
        stats = {k: v for k, v in result.stats.items() if k != "seconds"}
        print(file.stem, write_program(result.program), stats)
    except Refused as refusal:
        print(file.stem, refusal)
"""


def _lower_all(hash_seed: str) -> str:
    files = [str(SHARED / "kernels" / f"{name}.json") for name in KERNELS]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *files],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_hash_seed_changes_neither_programs_nor_statistics_nor_refusals() -> None:
    outputs = [_lower_all(seed) for seed in ("0", "1", "4242")]
    assert all(f"{name} " in outputs[0] for name in KERNELS)
    assert outputs[0] == outputs[1] == outputs[2]


def test_command_line_writes_the_same_bytes_for_any_hash_seed(tmp_path: Path) -> None:
    written = []
    for seed in ("7", "99"):
        target = tmp_path / f"{seed}.json"
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "pypto_eqsat", "optimize", "-o", str(target)]
        run = subprocess.run(
            [*command, str(SHARED / "kernels" / "softmax_tail_4d.json")],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert run.returncode == 0, run.stderr
        written.append(target.read_bytes())
    assert written[0] == written[1]
    assert written[0] == write_program(optimize(kernel("softmax_tail_4d")).program).encode()


@pytest.mark.parametrize("name", LOWERED)
def test_second_run_in_one_process_gives_the_same_bytes(name: str) -> None:
    first, second = (optimize(kernel(name), validate=False) for _ in range(2))
    assert write_program(first.program) == write_program(second.program)
    assert first.stats["rules_fired"] == second.stats["rules_fired"]
    assert first.stats["egraph"] == second.stats["egraph"]


@pytest.mark.parametrize("name", LOWERED)
def test_optimising_an_optimised_program_gives_the_same_bytes(name: str) -> None:
    once = optimize(kernel(name), validate=False)
    twice = optimize(once.program, validate=False)
    assert twice.program is once.program
    assert write_program(twice.program) == write_program(once.program)
    assert twice.stats["cost"] == once.stats["cost"]


def test_other_functions_of_a_program_do_not_change_the_result_of_one() -> None:
    alone = optimize(kernel("add_3d"), validate=False).program
    optimize(kernel("rmsnorm_4d"), validate=False)
    assert optimize(kernel("add_3d"), validate=False).program == alone
