"""The memory that this process holds, for limits on it."""

from __future__ import annotations

import sys
from pathlib import Path

_PAGES = Path("/proc/self/statm")


def resident() -> int | None:
    """MiB of main memory that the process holds; where the system does not tell, the most that it ever held, or None."""
    try:
        import resource
    except ImportError:
        return None
    try:
        return int(_PAGES.read_text(encoding="ascii").split()[1]) * resource.getpagesize() >> 20
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most >> (20 if sys.platform == "darwin" else 10)


def exceeds(limit: int | None) -> bool:
    """True where the process holds more than `limit` MiB."""
    held = None if limit is None else resident()
    return held is not None and limit is not None and held > limit
