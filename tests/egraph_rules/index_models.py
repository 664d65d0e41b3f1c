"""Fixed-width arithmetic in z3, and index facts as constraints: what proofs of transfer functions and rules are made of.

Two models. `Integers` has a value as an integer and wraps by taking multiples of 2**bits off: it decides sums, products and quotients by
constants at every width. `Vectors` has a value as its bits: bit operators, and products and quotients of two unknowns at few bits.
Division is done three ways: floor, truncating, and truncating by the bits of signed numbers, as kernels divide unsigned values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import z3

from egraph_rules.index_domain import Fact, bounds
from pypto_ir.dtypes import DType


def counterexample(*constraints: Any) -> z3.ModelRef | None:
    """Values that satisfy all constraints, None where there are none. Raises where z3 gives up."""
    solver = z3.Solver()
    solver.set("timeout", 60_000)
    solver.add(*constraints)
    result = solver.check()
    if result == z3.unknown:
        raise AssertionError(f"z3 does not decide: {solver.reason_unknown()}")
    return solver.model() if result == z3.sat else None


def ways(op: str, dtype: DType) -> Iterator[str]:
    """The ways of division that matter to an operation."""
    if op in ("floordiv", "mod"):
        yield from ("floor", "trunc", "signed") if dtype.is_unsigned else ("floor", "trunc")
    else:
        yield "floor"


@dataclass(slots=True)
class Integers:
    """Values of one type as integers. `given` are the constraints that wrapping adds."""

    dtype: DType
    given: list[Any] = field(default_factory=list)
    count: int = 0

    def fresh(self) -> Any:
        self.count += 1
        return z3.Int(f"k{self.count}")

    def value(self, name: str) -> Any:
        least, greatest = bounds(self.dtype)
        made = z3.Int(name)
        self.given += [least <= made, made <= greatest]
        return made

    def wrap(self, exact: Any) -> Any:
        """An exact number brought into the type."""
        least, greatest = bounds(self.dtype)
        wrapped = exact - (greatest - least + 1) * self.fresh()
        self.given += [least <= wrapped, wrapped <= greatest]
        return wrapped

    def holds(self, fact: Fact | None, a: Any) -> Any:
        """That a value is one that a fact allows."""
        if fact is None:
            return z3.BoolVal(False)
        if fact.values is not None:
            return z3.Or([a == v for v in fact.values])
        inside = [fact.lo <= a, a <= fact.hi]
        if fact.modulus == 0:
            inside.append(a == fact.residue)
        elif fact.modulus > 1:
            inside.append((a - fact.residue) % fact.modulus == 0)
        return z3.And(inside)

    def quotient(self, a: Any, c: int, way: str) -> Any:
        """The exact quotient by a constant."""
        if way == "signed":
            half = (bounds(self.dtype)[1] + 1) // 2
            a, c = z3.If(a >= half, a - 2 * half, a), c - 2 * half if c >= half else c
        a, c = (a, c) if c > 0 else (-a, -c)
        return a / c if way == "floor" else z3.If(a >= 0, a / c, -((-a) / c))

    def apply(self, op: str, a: Any, b: Any, way: str = "floor") -> Any:
        """An operation; products and quotients need a constant b."""
        match op:
            case "add":
                return self.wrap(a + b)
            case "sub":
                return self.wrap(a - b)
            case "mul":
                return self.wrap(a * b)
            case "floordiv":
                return self.wrap(self.quotient(a, b, way))
            case "mod":
                return self.wrap(a - b * self.quotient(a, b, way))
            case "min":
                return z3.If(a < b, a, b)
            case "max":
                return z3.If(a < b, b, a)
        raise KeyError(op)

    def unary(self, op: str, a: Any) -> Any:
        return self.wrap({"neg": -a, "abs": z3.If(a < 0, -a, a), "bitnot": -a - 1}[op])


@dataclass(frozen=True, slots=True)
class Vectors:
    """Values of one type as bit vectors."""

    dtype: DType

    def value(self, name: str) -> Any:
        return z3.BitVec(name, self.dtype.bits)

    def number(self, value: int) -> Any:
        return z3.BitVecVal(value, self.dtype.bits)

    def holds(self, fact: Fact | None, a: Any) -> Any:
        """That a value is one that a fact allows; a modulus of many bits is a power of two."""
        if fact is None:
            return z3.BoolVal(False)
        if fact.values is not None:
            return z3.Or([a == self.number(v) for v in fact.values])
        signed, bits, m = self.dtype.is_signed, self.dtype.bits, fact.modulus
        lo, hi = self.number(fact.lo), self.number(fact.hi)
        inside = [lo <= a, a <= hi] if signed else [z3.ULE(lo, a), z3.ULE(a, hi)]
        if m == 0:
            inside.append(a == self.number(fact.residue))
        elif m & (m - 1) == 0:
            inside.append((a - self.number(fact.residue)) & self.number(m - 1) == 0)
        else:
            wide = z3.SignExt(bits + 2, a) if signed else z3.ZeroExt(bits + 2, a)
            offset = bounds(self.dtype)[0] - (bounds(self.dtype)[0] - fact.residue) % m
            inside.append(z3.URem(wide - z3.BitVecVal(offset, 2 * bits + 2), m) == 0)
        return z3.And(inside)

    def divide(self, a: Any, b: Any, way: str) -> Any:
        if self.dtype.is_unsigned and way != "signed":
            return z3.UDiv(a, b)
        quotient = a / b
        if way != "floor":
            return quotient
        return z3.If(z3.And(z3.SRem(a, b) != 0, (a < 0) != (b < 0)), quotient - 1, quotient)

    def less(self, a: Any, b: Any) -> Any:
        return a < b if self.dtype.is_signed else z3.ULT(a, b)

    def apply(self, op: str, a: Any, b: Any, way: str = "floor") -> Any:
        match op:
            case "floordiv":
                return self.divide(a, b, way)
            case "mod":
                return a - self.divide(a, b, way) * b
            case "min":
                return z3.If(self.less(a, b), a, b)
            case "max":
                return z3.If(self.less(a, b), b, a)
            case "shl":
                return a << b
            case "shr":
                return a >> b if self.dtype.is_signed else z3.LShR(a, b)
        simple = {"add": a + b, "sub": a - b, "mul": a * b, "bitand": a & b, "bitor": a | b, "bitxor": a ^ b}
        return simple[op]

    def unary(self, op: str, a: Any) -> Any:
        return {"neg": -a, "abs": z3.If(a < 0, -a, a), "bitnot": ~a}[op]

    def defined(self, op: str, b: Any) -> Any:
        """That an operation has a result: nothing is divided by 0, no shift is as wide as the type."""
        if op in ("floordiv", "mod"):
            return b != 0
        return z3.ULT(b, self.dtype.bits) if op in ("shl", "shr") else z3.BoolVal(True)


OPERATORS = ("add", "sub", "mul", "floordiv", "mod", "min", "max", "bitand", "bitor", "bitxor", "shl", "shr")
