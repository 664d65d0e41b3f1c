"""Random programs over MX scales: loads of both layouts at offsets of every form, views in both directions, loops, branches, calls, stores.

    drawn = random_mx_program(random.Random(7))
    drawn.program, drawn.stores, drawn.refused

Every tile that is loaded is stored into an ND tensor at its own offsets, so that a wrong box gives wrong bytes there. Offsets are drawn
within bounds; in some programs one is none of whole boxes, or may be negative, and `refused` says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

from pypto_ir.json_reader import read_program
from pypto_ir.stmt import Program

Json: TypeAlias = dict[str, Any]
A, B = "MX_A_ZZ", "MX_B_NN"
#: rows and columns of a box, by layout
BOX = {A: (16, 2), B: (2, 16)}
VIEW = {
    A: {"blayout": "row_major", "slayout": "row_major", "fractal": 32}, B: {"blayout": "col_major", "slayout": "col_major", "fractal": 32},
}  # fmt: skip
E8 = "FP8E8M0"


@dataclass(slots=True)
class Drawn:
    """A program; `stores` says that it stores scales, `refused` that an offset of it is not proved, since it is not so, `loads` how many
    windows of scales it reads or writes."""

    program: Program
    stores: bool
    refused: bool
    loads: int


@dataclass(slots=True)
class Scales:
    """A tensor of scales in view: its layout, its shape in boxes, the ND tensor that its tiles are kept in."""

    name: str
    layout: str
    boxes: tuple[int, int]
    kept: str

    @property
    def shape(self) -> list[int]:
        return [n * size for n, size in zip(self.boxes, BOX[self.layout], strict=True)]


@dataclass(slots=True)
class _Draw:
    source: Random
    bad: bool = False
    params: list[Json] = field(default_factory=list)
    blocks: list[list[Json]] = field(default_factory=lambda: [[]])
    scales: list[Scales] = field(default_factory=list)
    outs: dict[str, str] = field(default_factory=dict)
    bounded: list[tuple[str, int]] = field(default_factory=list)
    counter: int = 0
    loads: int = 0
    refused: bool = False

    # ---- draws ----

    def chance(self, percent: int) -> bool:
        return self.source.randrange(100) < percent

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def emit(self, s: Json) -> None:
        self.blocks[-1].append(s)

    def named(self, text: str) -> str:
        """A name for an expression, or the expression where it stands for itself."""
        if self.chance(50):
            return text
        name = self.fresh("v")
        self.emit({"let": name, "expr": text})
        return name

    def number(self, most: int) -> str:
        """A number from 0 to `most` that is not a constant, mostly."""
        known = [(name, top) for name, top in self.bounded if top <= most]
        match self.source.randrange(5):
            case 0:
                return str(self.source.randint(0, most))
            case 1 if self.bounded:
                return f"min({self.source.choice(self.bounded)[0]}, {most})"
            case 2:
                name, lane = self.fresh("b"), self.source.choice(("tile.get_block_idx", "tile.get_subblock_idx"))
                self.emit({"let": name, "op": lane, "args": []})
                return f"({name} % {most + 1})"
            case _ if known and self.chance(70):
                return self.source.choice(known)[0]
        dtype = self.source.choice(("INDEX", "INDEX", "INT32", "INT64", "UINT32"))
        name = self.fresh("p")
        self.params.append({"name": name, "type": {"scalar": dtype}, "range": [0, most]})
        if dtype == "INDEX":
            self.bounded.append((name, most))
            return name
        return f'cast({name}, "INDEX")'

    def offset(self, most: int, by: int) -> str:
        """An offset of 0 to `most` boxes of `by` cells, in one of many forms."""
        n = self.number(most)
        if self.bad and not self.refused and most > 0 and not n.isdigit():
            self.refused = True
            return self.source.choice((f"{n} * {by // 2}", f"{n} * {by} - {by}", f"{n} * {by} + {by // 2}", f"{by} - {n} * {by}"))
        top = most * by
        forms = (
            f"{n} * {by}", f"{by} * {n}", f"({n} * {by} + {by // 2}) - {by // 2}", f"{n} << {by.bit_length() - 1}",
            f"({n} * {by * 16}) // 16", f"({n} * {by}) & -{by}", f"({n} * {by} + {by - 1}) // {by} * {by}",
            f"({n} * {by} + {by - 1}) - ({n} * {by} + {by - 1}) % {by}", f"max({n} * {by}, 0)", f"min({n} * {by}, {top})",
            f"{top} - ({most} - {n}) * {by}", f"({n} * 2) * {by // 2}", f"abs({n} * {-by})", f"({n} * {by}) | 0",
        )  # fmt: skip
        text = self.source.choice(forms)
        if text == f"{n} * {by}" and n.isdigit():
            text = str(int(n) * by)
        return self.named(text)

    # ---- statements ----

    def window(self, s: Scales) -> tuple[list[str], list[int]]:
        """Offsets and size of a window of whole boxes inside of scales."""
        offsets, size = [], []
        for boxes, by in zip(s.boxes, BOX[s.layout], strict=True):
            held = self.source.randint(1, boxes)
            offsets.append(self.offset(boxes - held, by))
            size.append(held * by)
        return offsets, size

    def load(self) -> None:
        """A window of scales, partly valid sometimes, is kept at its own offsets."""
        s = self.source.choice(self.scales)
        offsets, size = self.window(s)
        valid: list[Any] = list(size)
        if self.chance(35):
            axis = self.source.randrange(2)
            valid[axis] = self.source.randint(1, size[axis])
            if self.chance(40):
                name = self.fresh("n")
                self.params.append({"name": name, "type": {"scalar": "INDEX"}, "range": [1, size[axis]]})
                valid[axis] = name
        tile = self.fresh("t")
        args = [s.name, offsets, size] if valid == size and self.chance(30) else [s.name, offsets, size, valid]
        self.emit({"let": tile, "op": "tile.load", "args": args, "kwargs": {"target_memory": "Mat"}})
        self.keep(tile, offsets, s.kept)
        self.loads += 1

    def keep(self, tile: str, offsets: list[Any], out: str) -> None:
        name = self.fresh("o")
        self.emit({"let": name, "op": "tile.store", "args": [tile, offsets, self.outs[out]]})
        self.outs[out] = name

    def bytes_of(self) -> None:
        """Scales seen as a row of bytes: their boxes in memory order."""
        s = self.source.choice(self.scales)
        count = s.shape[0] * s.shape[1]
        view, tile = self.fresh("w"), self.fresh("t")
        self.emit({"let": view, "op": "tensor.view", "args": [s.name, [1, count]], "kwargs": {"layout": "ND"}})
        at, held = self.source.randrange(count // 32), 32
        load = [view, [0, at * 32], [1, held], [1, held]]
        self.emit({"let": tile, "op": "tile.load", "args": load, "kwargs": {"target_memory": "Vec"}})
        self.keep(tile, [0, at * 32], f"bytes of {s.kept}")

    def store(self) -> None:
        """A tile of whole boxes becomes part of scales, which are loaded from there on."""
        s = self.source.choice([s for s in self.scales if s.name.startswith("q")])
        offsets, size = self.window(s)
        source, tile, name = self.fresh("x"), self.fresh("t"), self.fresh("q")
        self.params.append({"name": source, "type": {"tensor": size, "dtype": E8}})
        load = [source, [0, 0], size, size]
        kwargs = {"target_memory": "Mat"}
        self.emit({"let": tile, "op": "tile.load", "args": load, "kwargs": kwargs, "type": {"view": VIEW[s.layout]}})
        self.emit({"let": name, "op": "tile.store", "args": [tile, offsets, s.name]})
        s.name = name
        self.loads += 1

    @contextmanager
    def block(self) -> Iterator[list[Json]]:
        names, bounded = [s.name for s in self.scales], list(self.bounded)
        self.blocks.append([])
        yield self.blocks[-1]
        self.blocks.pop()
        self.bounded = [b for b in bounded if b in self.bounded] + [b for b in self.bounded if b[0].startswith("p") and b not in bounded]
        for s, name in zip(self.scales, names, strict=True):
            s.name = name

    def loop(self, depth: int) -> None:
        """A loop upwards or downwards that carries what is written, and scales sometimes."""
        var, most = self.fresh("i"), self.source.randint(1, 3)
        written = [*self.outs, *(f"scales {i}" for i, s in enumerate(self.scales) if s.name.startswith("q") or self.chance(20))]
        first = {key: self.outs[key] if key in self.outs else self.scales[int(key.split()[1])].name for key in written}
        carried = {key: self.fresh("q" if first[key].startswith("q") else "c") for key in written}
        before = dict(self.outs)
        with self.block() as body:
            for key, name in carried.items():
                self._rename(key, name)
            self.bounded.append((var, most))
            self.fill(depth - 1)
            ends = [self.outs[key] if key in self.outs else self.scales[int(key.split()[1])].name for key in written]
            self.emit({"yield": ends})
            self.bounded.remove((var, most))
        self.outs = before
        results = {key: self.fresh("q" if first[key].startswith("q") else "r") for key in written}
        bounds = [0, most + 1, 1] if self.chance(60) else [most, -1, -1]
        kind = {"kind": "pipeline", "attrs": {"pipeline_stages": 2}} if bounds[2] == 1 and self.chance(20) else {}
        carry = [{"name": carried[key], "init": first[key]} for key in written]
        self.emit({"for": var, "range": bounds, "carry": carry, "body": body, "results": list(results.values()), **kind})
        for key, name in results.items():
            self._rename(key, name)

    def _rename(self, key: str, name: str) -> None:
        if key in self.outs:
            self.outs[key] = name
        else:
            self.scales[int(key.split()[1])].name = name

    def branch(self, depth: int) -> None:
        """What is written in one of two arms."""
        condition = f"{self.number(3)} < {self.source.randint(0, 3)}"
        before, arms = dict(self.outs), []
        stored = [s.name for s in self.scales]
        written = list(self.outs)
        for _ in range(2):
            self.outs = dict(before)
            with self.block() as body:
                self.fill(depth - 1, stores=False)
                self.emit({"yield": [self.outs[key] for key in written]})
            arms.append(body)
        assert stored == [s.name for s in self.scales]
        results = {key: self.fresh("r") for key in written}
        self.emit({"if": condition, "then": arms[0], "else": arms[1], "results": list(results.values())})
        self.outs = results

    def fill(self, depth: int, stores: bool = True) -> None:
        for _ in range(1 + self.source.randrange(3)):
            match self.source.randrange(12):
                case 0 | 1 if depth:
                    self.loop(depth)
                case 2 if depth:
                    self.branch(depth)
                case 3 | 4:
                    self.bytes_of()
                case 5 | 6 if stores and any(s.name.startswith("q") for s in self.scales):
                    self.store()
                case _:
                    self.load()

    # ---- functions ----

    def function(self, name: str, kind: str, depth: int) -> Json:
        """A function with one to three tensors of scales, one of them perhaps a view of bytes, one perhaps stored to."""
        returned = []
        for number in range(self.source.randint(1, 3)):
            layout, boxes = self.source.choice((A, B)), (self.source.randint(1, 4), self.source.randint(1, 4))
            s = Scales("", layout, boxes, f"k{number}")
            scales: Json = {"tensor": s.shape, "dtype": E8, "layout": layout}
            role = self.source.randrange(6)
            s.name = self.fresh("q" if role == 0 else "s")
            if role == 1:
                flat = self.fresh("x")
                self.params.append({"name": flat, "type": {"tensor": [1, s.shape[0] * s.shape[1]], "dtype": E8}})
                self.emit({"let": s.name, "op": "tensor.view", "args": [flat, s.shape], "kwargs": {"layout": layout}})
            else:
                self.params.append({"name": s.name, "type": scales, "direction": "InOut" if role == 0 else "In"})
                if role == 0:
                    returned.append(number)
                elif role == 2:
                    alias = self.fresh("a")
                    self.emit({"let": alias, "expr": s.name})
                    s.name = alias
            for key, shape in ((s.kept, s.shape), (f"bytes of {s.kept}", [1, s.shape[0] * s.shape[1]])):
                self.outs[key] = self.fresh("o")
                self.params.append({"name": self.outs[key], "type": {"tensor": shape, "dtype": E8}, "direction": "Out"})
            self.scales.append(s)
        self.fill(depth)
        written = [p for p in self.params if p.get("direction", "In") != "In"]
        outs, stored = iter(self.outs.values()), iter(self.scales[n].name for n in returned)
        values = [next(stored) if p["direction"] == "InOut" else next(outs) for p in written]
        self.emit({"return": values})
        return {
            "name": name, "kind": kind, "params": self.params, "returns": [p["type"] for p in written], "body": self.blocks[0],
        }  # fmt: skip


def random_mx_program(source: Random) -> Drawn:
    """One in-core function, called from an orchestration function sometimes, with offsets from there."""
    draw = _Draw(source, source.randrange(5) == 0)
    inner = draw.function("kernel", "InCore", 2)
    functions = [inner]
    if source.randrange(2):
        functions.append(_caller(source, inner))
    text = {"pypto_ir": 1, "name": "Drawn", "functions": functions, "target": "ascend950"}
    stores = any(s["op"] == "tile.store" and s["args"][2].startswith("q") for s in _ops(inner["body"]))
    return Drawn(read_program(json.dumps(text), "drawn.json"), stores, draw.refused, draw.loads)


def _ops(body: list[Json]) -> Iterator[Json]:
    for s in body:
        if "op" in s:
            yield s
        for key in ("body", "then", "else"):
            yield from _ops(s.get(key) or [])


def _caller(source: Random, inner: Json) -> Json:
    """A function that calls another once or in a loop, with numbers within the ranges of its parameters."""
    params = [p for p in inner["params"] if "tensor" in p["type"]]
    body: list[Json] = []
    args: list[Any] = []
    for p in inner["params"]:
        if "tensor" in p["type"]:
            args.append(p["name"])
            continue
        (low, high), dtype = p["range"], p["type"]["scalar"]
        if dtype == "INDEX" and low == 0 and source.randrange(2):
            args.append(f"i % {high + 1}")
        else:
            args.append({"const": source.randint(low, high), "dtype": dtype})
    written = [p for p in params if p.get("direction", "In") != "In"]
    carried = {p["name"]: f"c_{p['name']}" for p in written}
    called = [carried.get(a, a) if isinstance(a, str) else a for a in args]
    results = [f"n_{p['name']}" for p in written]
    carry = [{"name": carried[p["name"]], "init": p["name"]} for p in written]
    call = {"let": results, "call": "kernel", "args": called}
    ends = [f"r_{p['name']}" for p in written]
    body = [
        {"for": "i", "range": [0, source.randint(1, 3), 1], "carry": carry, "body": [call, {"yield": results}], "results": ends},
        {"return": ends},
    ]
    returns = [p["type"] for p in written]
    return {"name": "main", "kind": "Orchestration", "params": params, "returns": returns, "body": body}
