"""A changed module put in place of a loaded one without loading anything again, where that can be done.

A change inside a function becomes the function's code; a change of a constant or table becomes the value of its name wherever it was
imported. What other definitions were made from, such as the field of a class, has to be loaded again: that is for the caller.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tests.mutants.mutant import Mutant


def patched(mutant: Mutant, module: ModuleType, packages: tuple[str, ...]) -> bool:
    """Bring a mutant of a loaded module into force, also in those modules of `packages` that import from it; False where nothing was
    done because it takes more."""
    found = _function(module, mutant.where)
    if found is not None:
        function, name = found
        function.__code__ = next(c for c in _codes(compile(mutant.text, str(module.__file__), "exec")) if c.co_qualname == name)
        return True
    tree = ast.parse(mutant.text)
    statement = next((s for s in tree.body if _target(s) == mutant.where), None)
    if statement is None or _used_at_load(tree, statement, mutant.where):
        return False
    space = dict(vars(module))
    exec(compile(ast.Module([statement], []), str(module.__file__), "exec"), space)
    old = vars(module)[mutant.where]
    for name, other in list(sys.modules.items()):
        if name.partition(".")[0] in packages and vars(other).get(mutant.where) is old:
            setattr(other, mutant.where, space[mutant.where])
    return True


def _function(module: ModuleType, where: str) -> tuple[FunctionType, str] | None:
    """The outermost function on the way to a place, with its qualified name."""
    at: Any = module
    passed: list[str] = []
    for part in where.split("."):
        passed.append(part)
        at = vars(at).get(part)
        if isinstance(at, property):
            at = at.fget
        at = getattr(at, "__func__", at)
        while isinstance(at, functools._lru_cache_wrapper):
            at = at.__wrapped__
        if isinstance(at, FunctionType):
            return at, ".".join(passed)
        if not isinstance(at, type):
            return None
    return None


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _target(statement: ast.stmt) -> str | None:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            return name
    return None


def _used_at_load(tree: ast.Module, definition: ast.stmt, name: str) -> bool:
    """True where the value of a name goes into something else that the module makes while it is loaded."""
    waiting: list[ast.AST] = [s for s in tree.body if s is not definition]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and node.id == name:
            return True
        later = set(map(id, node.body)) if isinstance(node, ast.FunctionDef) else set()
        waiting += [child for child in ast.iter_child_nodes(node) if id(child) not in later]
    return False
