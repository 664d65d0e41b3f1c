"""Runs the command line in a process of its own, as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
KERNELS = ROOT.parent / "shared" / "kernels"
ADD = KERNELS / "add_3d.json"


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    def refused_with(self, *codes: str) -> None:
        """Exit code 1 or 2, each code on standard error, and no traceback anywhere."""
        assert self.code in (1, 2), self
        assert "Traceback" not in self.out + self.err, self
        for code in codes:
            assert f"[{code}]" in self.err, self


def cli(*arguments: str | Path, stdin: bytes | None = None, cwd: Path | None = None, debug: bool = False) -> Done:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    env.pop("PYPTO_EQSAT_DEBUG", None)
    if debug:
        env["PYPTO_EQSAT_DEBUG"] = "1"
    command = [sys.executable, "-m", "pypto_eqsat", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, env=env, cwd=cwd, timeout=120, check=False)
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())
