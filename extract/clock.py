"""Seconds by phase: each lap counts for the phase that it ends."""

from __future__ import annotations

import time


class Clock:
    """`laps` are the seconds of every phase so far."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.laps[phase] = self.laps.get(phase, 0.0) + now - self._last
        self._last = now
