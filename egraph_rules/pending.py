"""Factors of matrix products on their way: loads that name no memory go to L1, and what is transposed there is seen transposed.

    a = load(x, [0, 0, 0], [2, 16, 128])              a = load(x, .., target_memory=Mat)
    t = transpose(a, 1, 2)                            t = transpose_view(a)
    p = batch_matmul(t, b)                            p = batch_matmul(t, b)

L1 is the only memory that a load fills and that the cube unit is fed from, so such a load has no choice (`spec/flatten.md` 3.1). What such
a load is seen as on its way (a transposed view, other batch dims, a window, another name) lies there too. No unit transposes tiles in L1,
but the boxes of a transposed view are those of its tile (`spec/hardware.md` 4.2), and a product reads either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pypto_ir.expr import Expr, Var, const_int
from pypto_ir.ops.matmul import factors
from pypto_ir.ops.registry import OpError, find_op, type_of
from pypto_ir.ops.rules import infer_call
from pypto_ir.rebuilding import Rebuilder
from pypto_ir.stmt import Assign, Call, Function, Stmt, uses, walk
from pypto_ir.types import Memory, TileType, same_dims

#: ops that hand on what lies in L1 without moving it
_SEEN_AS = frozenset({"tile.transpose_view", "tile.reshape", "tile.slice"})


def into_l1(function: Function) -> Function:
    """The function with its open loads of factors of batched products in L1, and factors that are transposed there seen so; the same
    object where there are none."""
    found = _open(function)
    if not found:
        return function
    try:
        return _InL1(found).function(function)
    except OpError:
        return function


def _open(function: Function) -> frozenset[str]:
    """The names of the loads and transposes, and of what they are seen as, that nothing but products read; of those of loads, some are
    batched."""
    made: set[str] = set()
    loads: set[str] = set()
    sources: dict[str, str] = {}
    for s in walk(function.body):
        if not isinstance(s, Assign) or len(s.targets) != 1:
            continue
        name, source = s.target.name, _source(s)
        if _unset(s.target) and isinstance(s.value, Call) and s.value.op == "tile.load" and s.value.kwarg("target_memory") is None:
            made.add(name)
            loads.add(name)
        elif source is not None and source.name in made and _stays(s.target, None if _root(source.name, sources) in loads else Memory.MAT):
            made.add(name)
            sources[name] = source.name
        elif _turns(s) and _stays(s.target, Memory.MAT):
            made.add(name)
    batched: set[str] = set()
    multiplied: set[str] = set()
    read_otherwise: set[str] = set()
    for s in walk(function.body):
        own = s.target.name if isinstance(s, Assign) and len(s.targets) == 1 else ""
        read = {v.name for v in _factors(s)}
        multiplied |= {_root(name, sources) for name in read}
        if isinstance(s, Assign) and isinstance(s.value, Call) and s.value.op.startswith("tile.batch_matmul"):
            batched |= {_root(name, sources) for name in read}
        read_otherwise |= {v.name for v in uses(s)} - read - {sources.get(own, "")}
    # what stands at the root and all that it is seen as go together
    spoiled = {_root(name, sources) for name in read_otherwise}
    going = ((batched & loads) | (multiplied - loads)) - spoiled
    return frozenset(name for name in made if _root(name, sources) in going)


def _root(name: str, sources: dict[str, str]) -> str:
    while name in sources:
        name = sources[name]
    return name


def _unset(v: Var) -> bool:
    return _stays(v, None) and isinstance(v.type, TileType) and v.type.rank >= 2


def _stays(v: Var, memory: Memory | None) -> bool:
    """True for a tile in a memory, at no address of its own."""
    return isinstance(v.type, TileType) and v.type.memory is memory and v.type.memref is None


def _turns(s: Assign) -> bool:
    """A transpose of the last two axes of a tile that is valid as a whole: its transposed view is the same matrices."""
    call, t = s.value, type_of(s.value.args[0]) if isinstance(s.value, Call) and s.value.args else None
    if not isinstance(call, Call) or call.op != "tile.transpose" or not isinstance(t, TileType):
        return False
    axes = {const_int(e) for e in call.args[1:3]}
    return t.rank >= 2 and axes in ({t.rank - 2, t.rank - 1}, {-2, -1}, {t.rank - 2, -1}, {-2, t.rank - 1}) and same_dims(t.valid, t.shape)


def _source(s: Assign) -> Var | None:
    """What a statement sees in another way: pages stay pages."""
    if isinstance(s.value, Var):
        return s.value
    if not isinstance(s.value, Call) or not (s.value.op in _SEEN_AS or _turns(s)):
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
    """Loads with their memory named, transposes as views, and the types of what reads them."""

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
            if value.op == "tile.transpose":
                value = replace(value, op="tile.transpose_view", args=args[:1])
            else:
                value = replace(value, args=args, kwargs=kwargs)
            made = infer_call(value)
        else:
            assert isinstance(value, Var)
            value = self.var(value)
            made = value.type
        assert isinstance(made, TileType)
        self.types[s.target.name] = made
        return replace(s, targets=(Var(s.target.name, made),), value=value)
