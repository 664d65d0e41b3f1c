"""Random programs of batched products and accumulators, well typed by construction, for `random.Random` or hypothesis.

Batches of up to two dims that broadcast, windows with gaps, transposed views, reshapes of batch dims, shared operands, loops over K with
predicates, branches, stores at once and later, into the tensor or a part of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

from helpers import Json, give, let, load, loop, store

from pypto_ir.json_reader import read_program
from pypto_ir.stmt import Program


class Source(Protocol):
    def randrange(self, stop: int, /) -> int: ...


@dataclass(slots=True)
class Drawing:
    """A function in the making."""

    source: Source
    params: list[Json] = field(default_factory=list)
    outs: list[tuple[str, str]] = field(default_factory=list)
    names: int = 0

    def below(self, n: int) -> int:
        return self.source.randrange(n)

    def choose(self, items: Any) -> Any:
        return items[self.below(len(items))]

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def tensor(self, shape: list[int], dtype: str, out: bool = False) -> str:
        name = self.name("o" if out else "x")
        param: Json = {"name": name, "type": {"tensor": shape, "dtype": dtype}}
        self.params.append({**param, "direction": "Out"} if out else param)
        return name

    # operands

    def batch(self) -> list[int]:
        return self.choose(([2], [3], [1], [2, 2], [1, 2], [2, 1], []))

    def narrowed(self, batch: list[int]) -> list[int]:
        """Batch dims that broadcast to `batch`: some of them 1, or left out in front."""
        dims = [d if self.below(3) else 1 for d in batch]
        return dims[1:] if dims and dims[0] == 1 and self.below(3) == 0 else dims

    def matrix(self, body: list[Json], batch: list[int], rows: int, cols: int, dtype: str, k: str | None, axis: int, span: int) -> str:
        """A matrix operand [.., rows, cols]; with `k` its `axis` of -1 or -2 is a window at k of a tensor that is `span` long there."""
        turned = self.below(4) == 0
        page = [cols, rows] if turned else [rows, cols]
        shape = [*batch, *page]
        at: list[int | str] = [0] * len(shape)
        whole = list(shape)
        if k is not None:
            where = (-3 - axis) if turned else axis
            at[where], whole[where] = k, span
        elif len(shape) > 2 and self.below(4) == 0:
            whole[self.below(len(shape))] += 1 + self.below(2)
        name, memory = self.name("m"), "Vec" if not turned and self.below(8) == 0 else "Mat"
        body.append(load(name, self.tensor(whole, dtype), at, shape, memory=memory))
        if len(batch) > 1 and self.below(4) == 0:
            view, flat = self.name("m"), [prod(batch), *page]
            body.append(let(view, "tile.reshape", name, flat))
            back = self.name("m")
            body.append(let(back, "tile.reshape", view, shape))
            name = back
        if turned:
            view = self.name("m")
            body.append(let(view, "tile.transpose_view", name))
            name = view
        return name

    def pair(
        self, body: list[Json], batch: list[int], m: int, k: int, n: int, dtype: str, at: str | None = None, span: int = 0
    ) -> list[str]:
        """Two matrix operands whose product is [.., m, n]."""
        left, right = (self.narrowed(batch), batch) if self.below(2) else (batch, self.narrowed(batch))
        return [self.matrix(body, left, m, k, dtype, at, -1, span), self.matrix(body, right, k, n, dtype, at, -2, span)]

    # results

    def stored(self, body: list[Json], tile: str, shape: list[int], dtype: str) -> None:
        whole = [d + (self.below(2) if self.below(3) == 0 else 0) for d in shape]
        target = self.tensor(whole, dtype, out=True)
        at = [self.below(w - d + 1) for w, d in zip(whole, shape, strict=True)]
        result = self.name("s")
        kwargs = {"atomic": "Add"} if self.below(6) == 0 else {}
        body.append(store(result, tile, at, target, **kwargs))
        self.outs.append((target, result))


def random_batched(source: Source) -> Program:
    """One program of up to three results."""
    d = Drawing(source)
    body: list[Json] = []
    for _ in range(1 + d.below(3)):
        d.choose((_product, _product, _accumulation, _loop))(d, body)
    order = [p["name"] for p in d.params if p.get("direction") == "Out"]
    last = dict(d.outs)
    function = {
        "name": "main",
        "kind": "InCore",
        "params": d.params,
        "returns": [p["type"] for p in d.params if p.get("direction") == "Out"],
        "body": [*body, {"return": [last[name] for name in order]}],
    }
    target = d.choose(("ascend910b", "ascend950", None))
    value: Json = {"pypto_ir": 1, "name": "batched", "functions": [function], **({"target": target} if target else {})}
    return read_program(json.dumps(value), "batched.json")


def _sizes(d: Drawing) -> tuple[int, int, int]:
    return d.choose((16, 8, 32)), d.choose((16, 32)), d.choose((16, 32, 64, 24))


def _product(d: Drawing, body: list[Json]) -> None:
    batch, (m, k, n) = d.batch(), _sizes(d)
    pair = d.pair(body, batch, m, k, n, "FP16")
    for _ in range(1 + (d.below(4) == 0)):
        result = d.name("p")
        body.append(let(result, "tile.batch_matmul", *pair))
        if d.below(4) == 0:
            body.append({"let": d.name("i"), "expr": 1})
        d.stored(body, result, [*batch, m, n], "FP32")


def _accumulation(d: Drawing, body: list[Json]) -> None:
    batch, (m, k, n) = d.batch(), _sizes(d)
    acc = d.name("c")
    if d.below(2):
        body.append(let(acc, "tile.create", [*batch, m, n], dtype="FP32", target_memory="Acc"))
        first = ["1 == 1"]
    else:
        body.append(let(acc, "tile.batch_matmul", *d.pair(body, batch, m, k, n, "FP16")))
        first = []
    for i in range(1 + d.below(3)):
        new = d.name("c")
        body.append(let(new, "tile.batch_matmul_acc", acc, *d.pair(body, batch, m, k, n, "FP16"), *(first if i == 0 else [])))
        acc = new
    d.stored(body, acc, [*batch, m, n], "FP32")


def _loop(d: Drawing, body: list[Json]) -> None:
    batch, (m, k, n) = d.batch(), _sizes(d)
    span, var = k * (2 + d.below(2)), d.name("k")
    seed, acc, new, result = (d.name("c") for _ in range(4))
    body.append(let(seed, "tile.create", [*batch, m, n], dtype="FP32", target_memory="Acc"))
    inner: list[Json] = []
    pair = d.pair(inner, batch, m, k, n, "FP16", var, span)
    if d.below(3) == 0:
        one, two = d.name("c"), d.name("c")
        then = [let(one, "tile.batch_matmul_acc", acc, *pair, f"{var} == 0"), give(one)]
        other = [let(two, "tile.batch_matmul_acc", acc, *pair), give(two)]
        inner.append({"if": f"{var} == 0", "then": then, "else": other, "results": [new]})
    else:
        inner.append(let(new, "tile.batch_matmul_acc", acc, *pair, f"{var} == 0"))
    body.append(loop(var, [0, span, k], {acc: seed}, [*inner, give(new)], [result]))
    d.stored(body, result, [*batch, m, n], "FP32")
