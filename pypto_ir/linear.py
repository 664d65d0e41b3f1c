"""Integer expressions in normal form: a constant plus a linear combination of atoms.

`normalize(c * 16 + 8 + n - c * 16)` is `n + 8`. What is not linear (a quotient, a minimum) is an atom, with its own operands in
normal form. The form is used to compare extents and offsets and to print what rules build; it assumes that index arithmetic does not
overflow 64 bits, which holds for offsets into buffers.
"""

from __future__ import annotations

from dataclasses import dataclass

from pypto_ir.dtypes import DType
from pypto_ir.expr import COMPARISONS, Binary, Cast, Const, Expr, Unary, children, dtype_of, index, rebuild


@dataclass(frozen=True, slots=True)
class Linear:
    """`constant + sum(coefficient * atom)`; terms in order of first occurrence, no zero coefficients."""

    constant: int
    terms: tuple[tuple[Expr, int], ...] = ()

    @property
    def is_constant(self) -> bool:
        return not self.terms


def linear(e: Expr) -> Linear:
    """The normal form of an integer expression."""
    match e:
        case Const(value=v, dtype=d) if not d.is_float and d is not DType.BOOL:
            return Linear(int(v))
        case Binary(op="add", left=a, right=b):
            return _add(linear(a), linear(b), 1)
        case Binary(op="sub", left=a, right=b):
            return _add(linear(a), linear(b), -1)
        case Unary(op="neg", operand=a):
            return _add(Linear(0), linear(a), -1)
        case Binary(op="mul", left=a, right=b):
            x, y = linear(a), linear(b)
            if x.is_constant:
                return _scale(y, x.constant)
            if y.is_constant:
                return _scale(x, y.constant)
    return _atom(e)


def _atom(e: Expr) -> Linear:
    # sums of floats round: they are not put in another order
    parts = () if _of_floats(e) else children(e)
    folded = rebuild(e, tuple(normalize(p) for p in parts)) if parts else e
    value = _fold(folded)
    return Linear(value) if value is not None else Linear(0, ((folded, 1),))


def _of_floats(e: Expr) -> bool:
    """True where what is no float is made of floats."""
    match e:
        case Cast(operand=a):
            dtype = dtype_of(a)
        case Binary(op=op, left=a) if op in COMPARISONS:
            dtype = dtype_of(a)
        case _:
            return False
    return dtype is not None and dtype.is_float


def _fold(e: Expr) -> int | None:
    if not isinstance(e, Binary) or not isinstance(e.left, Const) or not isinstance(e.right, Const):
        return None
    if e.left.dtype.is_float or e.right.dtype.is_float:
        return None
    a, b = int(e.left.value), int(e.right.value)
    match e.op:
        case "min":
            return min(a, b)
        case "max":
            return max(a, b)
        case "floordiv" if b > 0 and a >= 0:
            return a // b
        case "mod" if b > 0 and a >= 0:
            return a % b
    return None


def _add(x: Linear, y: Linear, sign: int) -> Linear:
    terms = dict(x.terms)
    for atom, coefficient in y.terms:
        terms[atom] = terms.get(atom, 0) + sign * coefficient
    return Linear(x.constant + sign * y.constant, tuple((a, c) for a, c in terms.items() if c))


def _scale(x: Linear, factor: int) -> Linear:
    return Linear(x.constant * factor, tuple((a, c * factor) for a, c in x.terms)) if factor else Linear(0)


def to_expr(form: Linear) -> Expr:
    """The expression of a normal form: terms first, the constant last (`c * 16 + 8`)."""
    result: Expr | None = None
    for atom, coefficient in form.terms:
        size = abs(coefficient)
        term = atom if size == 1 else Binary("mul", atom, index(size))
        if result is None:
            result = term if coefficient > 0 else (Unary("neg", term) if size == 1 else Binary("mul", atom, index(coefficient)))
        else:
            result = Binary("add" if coefficient > 0 else "sub", result, term)
    if result is None:
        return index(form.constant)
    if form.constant:
        result = Binary("add" if form.constant > 0 else "sub", result, index(abs(form.constant)))
    return result


def normalize(e: Expr) -> Expr:
    """`e` in normal form; equal results mean equal values, the converse need not hold."""
    return to_expr(linear(e))


def difference(a: Expr, b: Expr) -> int | None:
    """`a - b` where it is a constant, else None."""
    if type(a) is Const and type(b) is Const and a.dtype.is_int and b.dtype.is_int:
        return int(a.value) - int(b.value)
    form = _add(linear(a), linear(b), -1)
    return form.constant if form.is_constant else None


def provably_equal(a: Expr, b: Expr) -> bool:
    return a is b or difference(a, b) == 0 or a == b


def all_provably_equal(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    """Whether `a` and `b` are as long as each other and provably equal item by item."""
    return a is b or (len(a) == len(b) and all(map(provably_equal, a, b)))


def provably_le(a: Expr, b: Expr) -> bool:
    """True where `a <= b` for every value of the variables: by constant difference, or through min and max."""
    d = difference(a, b)
    if d is not None:
        return d <= 0
    if isinstance(a, Binary) and a.op == "min":
        return provably_le(a.left, b) or provably_le(a.right, b)
    if isinstance(a, Binary) and a.op == "max":
        return provably_le(a.left, b) and provably_le(a.right, b)
    if isinstance(b, Binary) and b.op == "max":
        return provably_le(a, b.left) or provably_le(a, b.right)
    if isinstance(b, Binary) and b.op == "min":
        return provably_le(a, b.left) and provably_le(a, b.right)
    return False


def provably_gt(a: Expr, b: Expr) -> bool:
    """True where `a > b` for every value of the variables."""
    d = difference(a, b)
    if d is not None:
        return d > 0
    return False


def provably_negative(e: Expr) -> bool:
    form = linear(e)
    return form.is_constant and form.constant < 0
