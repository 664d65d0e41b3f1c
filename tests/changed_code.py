"""Code with a few words changed, for tests of tests: what a text in a module gives in the place of another one."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest


def change(patch: pytest.MonkeyPatch, module: ModuleType, old: str, new: str) -> None:
    """Let a module run with `new` in the place of `old`, which it must hold, until the patch is undone. Functions keep their identity, so
    that whoever took one runs the change."""
    source = inspect.getsource(module)
    assert old in source, f"{module.__name__} does not hold {old!r}"
    other = ModuleType(module.__name__)
    other.__dict__.update(__file__=module.__file__, __package__=module.__package__)
    text = source.replace(old, new).replace("\ndeclare(", "\n(lambda **k: None)(")
    exec(compile(text, module.__file__ or "", "exec"), other.__dict__)
    changed = 0
    for function, another in _functions(vars(module), vars(other), module.__name__):
        if function.__code__ != another.__code__:
            patch.setattr(function, "__code__", another.__code__)
            changed += 1
    for name, value in vars(other).items():
        if isinstance(value, int | float | str | frozenset | tuple | dict) and name.strip("_").isupper() and value != vars(module)[name]:
            patch.setattr(module, name, value)
            changed += 1
    assert changed, f"{old!r} -> {new!r} changes no function of {module.__name__}"


def _functions(mine: dict[str, Any], others: dict[str, Any], module: str) -> Iterator[tuple[FunctionType, FunctionType]]:
    """The functions of a module and of its classes, each with that of the changed one."""
    for name, value in mine.items():
        other = others.get(name)
        if isinstance(value, property) and isinstance(other, property):
            value, other = value.fget, other.fget
        if isinstance(value, FunctionType) and isinstance(other, FunctionType) and value.__module__ == module:
            yield value, other
        elif isinstance(value, type) and isinstance(other, type) and value.__module__ == module:
            yield from _functions(dict(vars(value)), dict(vars(other)), module)
