"""Loads that name no memory and feed matrix products only: they go to L1.

    a = load(x, [0, 0, 0], [2, 16, 128])              a = load(x, .., target_memory=Mat)
    t = transpose_view(a)                             t = transpose_view(a)
    p = batch_matmul(t, b)                            p = batch_matmul(t, b)

L1 is the only memory that a load fills and that the cube unit is fed from, so such a load has no choice (`spec/flatten.md` 3.1). What such
a load is seen as on its way (a transposed view, other batch dims, a window, another name) lies there too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pypto_ir.expr import Expr, Var
from pypto_ir.ops.matmul import factors
from pypto_ir.ops.registry import OpError, find_op
from pypto_ir.ops.rules import infer_call
from pypto_ir.rebuilding import Rebuilder
from pypto_ir.stmt import Assign, Call, Function, Stmt, uses, walk
from pypto_ir.types import Memory, TileType, same_dims

#: ops that hand on what lies in L1 without moving it
_SEEN_AS = frozenset({"tile.transpose_view", "tile.reshape", "tile.slice"})


def into_l1(function: Function) -> Function:
    """The function with its open loads of factors of batched products in L1; the same object where there are none."""
    found = _open(function)
    if not found:
        return function
    try:
        return _InL1(found).function(function)
    except OpError:
        return function


def _open(function: Function) -> frozenset[str]:
    """The names of the loads, and of what they are seen as, that nothing but products read, some of them batched."""
    made: dict[str, Stmt] = {}
    sources: dict[str, str] = {}
    for s in walk(function.body):
        if isinstance(s, Assign) and len(s.targets) == 1 and _unset(s.target):
            source = _source(s)
            if isinstance(s.value, Call) and s.value.op == "tile.load" and s.value.kwarg("target_memory") is None:
                made[s.target.name] = s
            elif source is not None and source.name in made:
                made[s.target.name], sources[s.target.name] = s, source.name
    batched: set[str] = set()
    read_otherwise: set[str] = set()
    for s in walk(function.body):
        own = s.target.name if isinstance(s, Assign) and len(s.targets) == 1 else ""
        read = {v.name for v in _factors(s)}
        if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op.startswith("tile.batch_matmul"):
            batched |= {_root(name, sources) for name in read}
        read_otherwise |= {v.name for v in uses(s)} - read - {sources.get(own, "")}
    # a load and all that it is seen as go together
    spoiled = {_root(name, sources) for name in read_otherwise}
    return frozenset(name for name in made if (root := _root(name, sources)) in batched and root not in spoiled)


def _root(name: str, sources: dict[str, str]) -> str:
    while name in sources:
        name = sources[name]
    return name


def _unset(v: Var) -> bool:
    return isinstance(v.type, TileType) and v.type.memory is None and v.type.memref is None and v.type.rank >= 2


def _source(s: Assign) -> Var | None:
    """What a statement sees in another way: pages stay pages."""
    if isinstance(s.value, Var):
        return s.value
    if not isinstance(s.value, Call) or s.value.op not in _SEEN_AS:
        return None
    source = s.value.args[0]
    if not isinstance(source, Var) or not isinstance(source.type, TileType) or not isinstance(s.target.type, TileType):
        return None
    if s.value.op == "tile.reshape" and not same_dims(source.type.shape[-2:], s.target.type.shape[-2:]):
        return None
    return source


def _factors(s: Stmt) -> Iterator[Var]:
    if isinstance(s, Assign) and isinstance(s.value, Call):
        op = find_op(s.value.op)
        places = factors(op) if op is not None else None
        for i in places or ():
            e = s.value.args[i]
            if isinstance(e, Var):
                yield e


class _InL1(Rebuilder):
    """Loads with their memory named, and the types of what reads them."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.types: dict[str, TileType] = {}

    def var(self, v: Var) -> Var:
        return Var(v.name, self.types[v.name]) if v.name in self.types else v

    def statement(self, s: Stmt) -> Stmt:
        if not isinstance(s, Assign) or len(s.targets) != 1 or s.target.name not in self.names:
            return super().statement(s)
        value = s.value
        if isinstance(value, Call):
            args: tuple[Expr, ...] = self.exprs(value.args)
            kwargs = (*value.kwargs, ("target_memory", Memory.MAT.value)) if value.op == "tile.load" else value.kwargs
            value = replace(value, args=args, kwargs=kwargs)
            made = infer_call(value)
        else:
            assert isinstance(value, Var)
            value = self.var(value)
            made = value.type
        assert isinstance(made, TileType)
        self.types[s.target.name] = made
        return replace(s, targets=(Var(s.target.name, made),), value=value)
