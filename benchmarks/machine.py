"""The machine that measures: what it is, and the memory that its processes hold."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def here() -> str:
    """Processor, cores, system and Python, as tables name them."""
    return f"{processor()}, {os.cpu_count()} cores, {platform.system()}; Python {platform.python_version()}"


def processor() -> str:
    """The processor's name where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def memory(field: str, pid: int | str = "self") -> int | None:
    """KiB of a process by a field of its status: `VmRSS` is what it holds now, `VmHWM` the most that it held; None where the system does
    not tell."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
        (line,) = (s for s in lines if s.startswith(f"{field}:"))
    except (OSError, ValueError):
        return None
    return int(line.split()[1])
