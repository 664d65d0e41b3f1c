"""Random functions of 2-D tiles with many of them alive, for tests of liveness and allocation.

    f = live_function(random.Random(3), 30)

Loads, ops with and without scratch, views, updates in place, products, loops that keep, replace or swap what
they carry, whiles, branches and pipelined loops. Updates in place do not ask who still reads the old value:
what matters here is where tiles lie, not what is in them.
"""

from __future__ import annotations

from random import Random

from pypto_ir.dtypes import DType
from pypto_ir.expr import Binary, Const, Expr, MakeTuple, Var, index
from pypto_ir.ops.rules import infer_call
from pypto_ir.stmt import (
    Assign,
    Call,
    Carry,
    Eval,
    For,
    Function,
    If,
    Param,
    Return,
    Scope,
    Stmt,
    While,
    Yield,
)
from pypto_ir.types import INDEX, Memory, TileType, dims, tensor_type

#: rows and columns of tiles
ROWS, COLUMNS = (16, 32, 48, 64, 112), (64, 32, 128, 96)
DEPTH = 3


def live_function(source: Random, size: int) -> Function:
    """A function of about `size` statements."""
    return _Builder(source).function(size)


class _Builder:
    def __init__(self, source: Random) -> None:
        self.source = source
        self.shapes = [(source.choice(ROWS), source.choice(COLUMNS)) for _ in range(3)]
        self.pools: list[list[Var]] = [[]]
        self.blocks: list[list[Stmt]] = [[]]
        self.serial = 0
        self.tensor = Var("x", tensor_type(dims(4096, 4096), DType.FP32))
        self.count = Var("n", INDEX)

    def function(self, size: int) -> Function:
        for _ in range(size):
            self.statement()
        for v in self.source.sample(self.visible(), min(4, len(self.visible()))):
            self.use(v)
        self.blocks[0].append(Return((self.tensor,)))
        params = (Param(self.tensor, "InOut"), Param(self.count))
        return Function("main", params, (self.tensor.type,), tuple(self.blocks[0]), "InCore")

    # ---- what is visible ----

    def visible(self, memory: Memory = Memory.VEC) -> list[Var]:
        return [v for pool in self.pools for v in pool if v.type.memory is memory]

    def some(self, memory: Memory = Memory.VEC, like: Var | None = None) -> Var | None:
        found = [v for v in self.visible(memory) if like is None or v.type == like.type]
        if not found:
            return None
        return found[-1] if self.source.random() < 0.3 else self.source.choice(found)

    def name(self, stem: str) -> str:
        self.serial += 1
        return f"{stem}{self.serial}"

    def emit(self, s: Stmt) -> None:
        self.blocks[-1].append(s)

    def call(self, op: str, *args: Expr, stem: str = "t", **kwargs: object) -> Var:
        call = Call(op, args, tuple(kwargs.items()))
        var = Var(self.name(stem), infer_call(call))
        self.emit(Assign((var,), call))
        if isinstance(var.type, TileType):
            self.pools[-1].append(var)
        return var

    # ---- statements ----

    def statement(self) -> None:
        drawn = self.source.random()
        nested = len(self.blocks) <= DEPTH
        if drawn < 0.22 or not self.visible():
            self.load()
        elif drawn < 0.52:
            self.compute()
        elif drawn < 0.66:
            self.update()
        elif drawn < 0.74:
            self.product()
        elif drawn < 0.80:
            self.use(self.some())
        elif drawn < 0.90 and nested:
            self.loop()
        elif drawn < 0.97 and nested:
            self.branch()
        elif nested:
            self.nested(lambda: self.fill(2), lambda body: self.emit(Scope("cluster", body)), visible=True)

    def fill(self, most: int) -> None:
        for _ in range(1 + self.source.randrange(most)):
            self.statement()

    def load(self, memory: Memory = Memory.VEC) -> Var:
        shape = self.source.choice(self.shapes)
        return self.load_of(shape, memory)

    def load_of(self, shape: tuple[int, int], memory: Memory) -> Var:
        at, window = MakeTuple(dims(0, 0)), MakeTuple(dims(*shape))
        return self.call("tile.load", self.tensor, at, window, window, stem="l", target_memory=memory.value)

    def compute(self) -> None:
        x = self.some()
        assert x is not None
        rows, columns = x.type.static_shape
        match self.source.randrange(6) if columns % 16 == 0 else 0:
            case 0:
                self.call("tile.exp", x)
            case 1 | 2:
                y = self.some(like=x)
                assert y is not None
                self.call("tile.add", x, y)
            case 3:
                self.call("tile.row_sum", x, self.scratch(x))
            case 4:
                self.call("tile.reshape", x, MakeTuple(dims(rows * 2, columns // 2)), stem="v")
            case 5:
                self.call(
                    "tile.slice",
                    x,
                    MakeTuple(dims(max(1, rows // 2), columns)),
                    MakeTuple(dims(0, 0)),
                    stem="w",
                )

    def scratch(self, like: Var) -> Var:
        made = self.call("tile.create", MakeTuple(like.type.shape), stem="s", dtype="FP32", target_memory="Vec")
        self.pools[-1].remove(made)
        return made

    def update(self) -> None:
        x = self.some()
        assert x is not None
        part = self.some(like=x) if self.source.random() < 0.5 else None
        if part is None or part is x:
            part = self.call("tile.exp", x)
        self.call("tile.assemble", x, part, MakeTuple(dims(0, 0)), stem="u")

    def product(self) -> None:
        acc = self.some(Memory.ACC)
        left, right = self.load_of((32, 64), Memory.MAT), self.load_of((64, 48), Memory.MAT)
        if acc is not None and self.source.random() < 0.6:
            self.call("tile.matmul_acc", acc, left, right, stem="a")
        else:
            self.call("tile.matmul", left, right, stem="a")

    def use(self, x: Var | None) -> None:
        if x is not None:
            self.emit(Eval(Call("tile.store", (x, MakeTuple(dims(0, 0)), self.tensor))))

    # ---- control flow ----

    def nested(self, fill, close, *, visible: bool = False):
        """Open a block, fill it, and hand its statements on."""
        self.blocks.append([])
        self.pools.append([])
        made = fill()
        pool, body = self.pools.pop(), tuple(self.blocks.pop())
        if visible:
            self.pools[-1].extend(pool)
        close(body)
        return made

    def loop(self) -> None:
        inits = [v for v in (self.some(self.some_memory()) for _ in range(self.source.randrange(4))) if v is not None]
        args = [Var(self.name("c"), v.type) for v in inits]
        carries = tuple(map(Carry, args, inits))
        results = tuple(Var(self.name("r"), v.type) for v in inits)

        def fill() -> None:
            self.pools[-1].extend(args)
            self.fill(5)
            if args:
                self.emit(Yield(tuple(self.next_of(a, args) for a in args)))

        def close(body: tuple[Stmt, ...]) -> None:
            if self.source.random() < 0.2 and args:
                self.emit(While(Binary("lt", self.count, index(2)), body, carries, results))
                return
            kind = "pipeline" if self.source.random() < 0.3 else "range"
            attrs = (("pipeline_stages", self.source.choice((2, 3))),) if kind == "pipeline" else ()
            var = Var(self.name("k"), INDEX)
            self.emit(For(var, index(0), self.count, index(1), body, carries, results, kind, attrs))

        self.nested(fill, close)
        self.pools[-1].extend(results)

    def some_memory(self) -> Memory:
        return Memory.ACC if self.source.random() < 0.25 else self.source.choice((Memory.VEC, Memory.VEC, Memory.MAT))

    def next_of(self, arg: Var, args: list[Var]) -> Var:
        """What the body yields for a carry: mostly something new, sometimes itself or another carry."""
        drawn = self.source.random()
        if drawn < 0.15:
            return arg
        mine = [v for v in self.pools[-1] if v.type == arg.type and v not in args]
        if mine and drawn < 0.7:
            return self.source.choice(mine)
        found = self.some(arg.type.memory, arg)
        assert found is not None
        return found

    def branch(self) -> None:
        types = [v for v in (self.some(self.some_memory()) for _ in range(self.source.randrange(3))) if v is not None]
        results = tuple(Var(self.name("p"), v.type) for v in types)
        arms: list[tuple[Stmt, ...]] = []

        def fill() -> None:
            self.fill(4)
            if types:
                self.emit(Yield(tuple(self.arm_value(v) for v in types)))

        self.nested(fill, arms.append)
        if types or self.source.random() < 0.5:
            self.nested(fill, arms.append)
        cond = Binary("lt", self.count, Const(2, DType.INDEX))
        self.emit(If(cond, arms[0], arms[1] if len(arms) > 1 else None, results))
        self.pools[-1].extend(results)

    def arm_value(self, like: Var) -> Var:
        mine = [v for v in self.pools[-1] if v.type == like.type]
        if mine and self.source.random() < 0.7:
            return self.source.choice(mine)
        found = self.some(like.type.memory, like)
        assert found is not None
        return found
