"""Answers about the objects that were asked about last.

A function is checked for the same thing by several stages, which hand on one object; as a key of an ordinary cache it would have to be
hashed and compared whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

A = TypeVar("A")
R = TypeVar("R")


def recent(kept: int) -> Callable[[Callable[[A], R]], Callable[[A], R]]:
    """Remembers what a function of one immutable object gave for the last `kept` objects, told apart by identity."""

    def remembering(f: Callable[[A], R]) -> Callable[[A], R]:
        known: deque[tuple[A, R]] = deque(maxlen=kept)

        @wraps(f)
        def remembered(about: A) -> R:
            for it, answer in tuple(known):
                if it is about:
                    return answer
            answer = f(about)
            known.append((about, answer))
            return answer

        return remembered

    return remembering
