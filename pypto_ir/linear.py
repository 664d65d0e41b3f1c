"""Integer expressions in normal form: a constant plus a linear combination of atoms, modulo 2**bits of their type.

`normalize(c * 16 + 8 + n - c * 16)` is `n + 8`. What is not linear (a quotient, a minimum) is an atom, with its own operands in
normal form; so is what is narrower, which wraps at its own width before it is widened: of an INT8 x the sum `(x + 100) + 100` at 64
bits is `cast(x + 100) + 100` and not `x + 200`.

Equal forms of one type are equal numbers, whatever wraps. Order is told of extents and offsets: numbers that are not negative as they
are, at 64 bits at most 2**40, since no memory holds more. Of two of them the difference modulo 2**bits is their difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pypto_ir.dtypes import DType, promote_scalar
from pypto_ir.expr import Binary, Cast, Const, Expr, Unary, Var, children, dtype_of, rebuild


@dataclass(frozen=True, slots=True)
class Linear:
    """`constant + sum(coefficient * atom)` modulo 2**bits of a type; terms in order of first occurrence, no zero coefficients."""

    constant: int
    terms: tuple[tuple[Expr, int], ...] = ()
    dtype: DType = DType.INDEX

    @property
    def is_constant(self) -> bool:
        return not self.terms


def linear(e: Expr) -> Linear:
    """The normal form of an integer expression."""
    match e:
        case Const(value=v, dtype=d) if d.is_int:
            return Linear(int(v), (), d)
        case Var():
            return Linear(0, ((e, 1),), dtype_of(e) or DType.INDEX)
        case Unary(op="neg", operand=a) if (x := linear(a)).dtype.is_int:
            return _form(0, ((-1, x),), x.dtype)
        case Binary(op="add" | "sub" | "mul" as op, left=a, right=b):
            x, y = linear(a), linear(b)
            dtype = promote_scalar(x.dtype, y.dtype)
            left, right = (None, None) if dtype is None else (_as_operand(x, dtype), _as_operand(y, dtype))
            if dtype is not None and left is not None and right is not None:
                if op != "mul":
                    return _form(0, ((1, left), (1 if op == "add" else -1, right)), dtype)
                if left.is_constant or right.is_constant:
                    factor, other = (left, right) if left.is_constant else (right, left)
                    return _form(0, ((factor.constant, other),), dtype)
    return _atom(e)


def _as_operand(form: Linear, dtype: DType) -> Linear | None:
    """A form as an operand of an operation of a type: what is narrower is cast, and an atom. None for what may be read in two ways, by
    value and by its bits."""
    if not dtype.is_int or not form.dtype.is_int:
        return None
    if form.dtype is dtype:
        return form
    least = 0 if dtype.is_unsigned else -1 << dtype.bits - 1
    if form.is_constant and least <= form.constant < 1 << min(dtype.bits, form.dtype.bits) - 1:
        return Linear(form.constant, (), dtype)
    if form.dtype.bits == dtype.bits:
        return form if form.dtype.is_unsigned is dtype.is_unsigned else None
    if form.dtype.is_unsigned or dtype.is_unsigned or form.dtype.bits > dtype.bits:
        return None
    return Linear(0, ((Cast(to_expr(form), dtype), 1),), dtype)


def _atom(e: Expr) -> Linear:
    # sums of floats round: they are atoms too, their operands in their order
    parts = tuple(map(linear, children(e)))
    folded = rebuild(e, tuple(map(to_expr, parts))) if parts else e
    value = _fold(folded)
    dtype = _type(e, parts)
    return Linear(value, (), dtype) if value is not None else Linear(0, ((folded, 1),), dtype)


def _type(e: Expr, parts: tuple[Linear, ...]) -> DType:
    """The type of an expression that is no linear one, INDEX where it has none."""
    if isinstance(e, Binary) and e.op not in ("shl", "shr", "pow"):
        found = dtype_of(Binary(e.op, *(Const(0, p.dtype) for p in parts)))
    elif isinstance(e, Unary):
        found = parts[0].dtype
    else:
        found = dtype_of(e)
    return DType.INDEX if found is None else found


def _fold(e: Expr) -> int | None:
    if not isinstance(e, Binary) or not isinstance(e.left, Const) or not isinstance(e.right, Const):
        return None
    if not e.left.dtype.is_int or not e.right.dtype.is_int:
        return None
    a, b = int(e.left.value), int(e.right.value)
    match e.op:
        case "min" if (a >= 0 and b >= 0) or e.left.dtype is e.right.dtype:
            return min(a, b)
        case "max" if (a >= 0 and b >= 0) or e.left.dtype is e.right.dtype:
            return max(a, b)
        case "floordiv" if b > 0 and a >= 0 and not _high(e.left) and not _high(e.right):
            return a // b
        case "mod" if b > 0 and a >= 0 and not _high(e.left) and not _high(e.right):
            return a % b
    return None


def _high(c: Const) -> bool:
    """True for an unsigned number with its top bit set, which kernels divide as a negative one."""
    return c.dtype.is_unsigned and bool(int(c.value) >> c.dtype.bits - 1)


def _form(constant: int, parts: Iterable[tuple[int, Linear]], dtype: DType) -> Linear:
    """constant + sum(times * part) modulo 2**bits."""
    terms: dict[Expr, int] = {}
    for times, part in parts:
        constant += times * part.constant
        for atom, coefficient in part.terms:
            terms[atom] = terms.get(atom, 0) + times * coefficient
    near = {atom: _near(c, dtype) for atom, c in terms.items()}
    return Linear(_near(constant, dtype), tuple((atom, c) for atom, c in near.items() if c), dtype)


def _near(n: int, dtype: DType) -> int:
    """A number modulo 2**bits, of those from -2**(bits - 1) on."""
    half = 1 << dtype.bits - 1
    return n if -half <= n < half else (n + half) % (2 * half) - half


def to_expr(form: Linear) -> Expr:
    """The expression of a normal form, of its type: terms first, the constant last (`c * 16 + 8`)."""

    def number(n: int) -> Const:
        return Const(n % (1 << form.dtype.bits) if form.dtype.is_unsigned else n, form.dtype)

    lowest = -1 << form.dtype.bits - 1  # has no positive counterpart
    result: Expr | None = None
    for atom, coefficient in form.terms:
        size = abs(coefficient)
        positive = coefficient > 0 or coefficient == lowest
        term = atom if size == 1 else Binary("mul", atom, number(coefficient if coefficient == lowest else size))
        if result is None:
            result = term if positive else (Unary("neg", term) if size == 1 else Binary("mul", atom, number(coefficient)))
        else:
            result = Binary("add" if positive else "sub", result, term)
    if result is None:
        return number(form.constant)
    if form.constant:
        up = form.constant > 0 or form.constant == lowest
        result = Binary("add" if up else "sub", result, number(form.constant if up else -form.constant))
    return result


def normalize(e: Expr) -> Expr:
    """`e` in normal form; equal results mean equal values, the converse need not hold."""
    return to_expr(linear(e))


def difference(a: Expr, b: Expr) -> int | None:
    """`a - b` where it is a constant, else None; modulo 2**bits of the wider type, nearest to 0."""
    if type(a) is Const and type(b) is Const and a.dtype.is_int and b.dtype.is_int:
        return int(a.value) - int(b.value)
    x, y = linear(a), linear(b)
    dtype = promote_scalar(x.dtype, y.dtype)
    left, right = (None, None) if dtype is None else (_as_operand(x, dtype), _as_operand(y, dtype))
    if dtype is None or left is None or right is None:
        return None
    form = _form(0, ((1, left), (-1, right)), dtype)
    return form.constant if form.is_constant else None


def provably_equal(a: Expr, b: Expr) -> bool:
    return a is b or difference(a, b) == 0 or a == b


def all_provably_equal(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    """Whether `a` and `b` are as long as each other and provably equal item by item."""
    return a is b or (len(a) == len(b) and all(map(provably_equal, a, b)))


def provably_le(a: Expr, b: Expr) -> bool:
    """True where `a <= b` for every value of the variables, of extents and offsets: by constant difference, or through min and max."""
    return _le(a, b, False)


def _le(a: Expr, b: Expr, equal: bool) -> bool:
    """`a <= b`; with `equal` a difference must be 0: of max(x + 1, y) in INT8 with x = 127 the sum is not the larger one, although both
    x and the maximum are extents."""
    d = difference(a, b)
    if d is not None:
        return d == 0 if equal else d <= 0
    if isinstance(a, Binary) and a.op == "min":
        return _le(a.left, b, equal) or _le(a.right, b, equal)
    if isinstance(a, Binary) and a.op == "max":
        return _le(a.left, b, equal) and _le(a.right, b, equal)
    if isinstance(b, Binary) and b.op == "max":
        narrow = (dtype_of(b) or DType.INDEX).bits < DType.INDEX.bits
        return _le(a, b.left, equal or narrow) or _le(a, b.right, equal or narrow)
    if isinstance(b, Binary) and b.op == "min":
        return _le(a, b.left, equal) and _le(a, b.right, equal)
    return False


def provably_gt(a: Expr, b: Expr) -> bool:
    """True where `a > b` for every value of the variables, of extents and offsets."""
    d = difference(a, b)
    if d is not None:
        return d > 0
    return False


def provably_negative(e: Expr) -> bool:
    form = linear(e)
    return form.is_constant and form.constant < 0
