"""Names of emitted values: the author's where there is one, made from it where there is none."""

from __future__ import annotations

from collections.abc import Iterable

from pypto_ir.stmt import Function, definitions, walk


class Names:
    """Hands out names that are defined once in a function."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._reserved = set(taken)
        self._used: set[str] = set()
        #: the first number that may be free, by base
        self._next: dict[str, int] = {}

    def own(self, name: str) -> str | None:
        """The author's name, if no emitted value bears it yet."""
        if name in self._used:
            return None
        self._used.add(name)
        return name

    def derived(self, name: str, suffix: str) -> str:
        """`name_suffix`, or the first of `name_suffix_1`, `name_suffix_2`, .. that is free."""
        return self.free(f"{name}_{suffix}")

    def free(self, base: str) -> str:
        """`base`, or the first of `base_1`, `base_2`, .. that is free."""
        n = self._next.get(base, 0)
        candidate = f"{base}_{n}" if n else base
        while candidate in self._used or candidate in self._reserved:
            n += 1
            candidate = f"{base}_{n}"
        self._next[base] = n + 1
        self._used.add(candidate)
        return candidate

    def release(self, name: str) -> None:
        """Give a name back that was handed out for something that is not emitted after all."""
        self._used.discard(name)
        self._next.clear()


def names_of(function: Function) -> Names:
    """Names beside those that a function has."""
    return Names((*(p.var.name for p in function.params), *(v.name for s in walk(function.body) for v in definitions(s))))
