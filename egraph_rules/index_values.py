"""Scalar values by number: equal numbers are equal values, and every value knows its linear form.

`16 * i - (x % 16) + x % 16` has the form 16 * i whatever its tree: a form is a constant plus multiples of atoms, and the value is its
form modulo 2**bits, whether or not operations on the way wrap. Three identities of quotients, true of floor and of truncating division,
are applied to forms: x - x % c = c * (x // c), c * (x // c) + x % c = x, and x - c * (x // c) = x % c; (x // a) // b is x // (a * b).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pypto_ir.dtypes import DType, promote_scalar
from pypto_ir.expr import COMPARISONS, LOGICAL

#: longer forms are atoms of their own, so that a sum of n definitions costs no more than n
MAX_TERMS = 16
#: number of a value in its table
ValueId: TypeAlias = int
_COMMUTATIVE = frozenset({"add", "mul", "min", "max", "bitand", "bitor", "bitxor", "and", "or", "eq", "ne"})


@dataclass(frozen=True, slots=True)
class Form:
    """`constant + sum(coefficient * atom)`, atoms by number in increasing order, no zero coefficients."""

    constant: int
    terms: tuple[tuple[ValueId, int], ...] = ()

    def coefficient(self, atom: ValueId) -> int:
        return next((c for a, c in self.terms if a == atom), 0)


@dataclass(frozen=True, slots=True)
class Term:
    """What a value is: an operation on values, or a leaf (`op` "leaf", named). `whole` says that the form is the value also where no
    operation wraps and numbers are exact: no coefficient was taken modulo 2**bits."""

    op: str
    dtype: DType
    operands: tuple[ValueId, ...]
    form: Form
    name: str = ""
    constant: int | None = None
    whole: bool = True


def combine(a: Form, b: Form, times: int = 1) -> Form:
    """a + times * b"""
    terms = dict(a.terms)
    for atom, c in b.terms:
        terms[atom] = terms.get(atom, 0) + times * c
    return Form(a.constant + times * b.constant, tuple(sorted((x, c) for x, c in terms.items() if c)))


def scale(a: Form, by: int) -> Form:
    """by * a"""
    return Form(a.constant * by, tuple((x, c * by) for x, c in a.terms)) if by else Form(0)


def alike(a: DType, b: DType) -> bool:
    """True for integer types with the same values: INDEX and INT64 are alike."""
    return a.bits == b.bits and a.is_unsigned == b.is_unsigned


def balanced(a: Form, bits: int) -> Form:
    """The form with numbers modulo 2**bits between -2**(bits-1) and 2**(bits-1)."""
    half = 1 << (bits - 1)
    if -half <= a.constant < half and all(-half <= c < half for _, c in a.terms):
        return a

    def near(n: int) -> int:
        return (n + half) % (2 * half) - half

    return Form(near(a.constant), tuple((x, near(c)) for x, c in a.terms if near(c)))


class Values:
    """The table of values of one program. Values of different functions never share a leaf."""

    def __init__(self) -> None:
        self.terms: list[Term] = []
        self._numbers: dict[tuple[object, ...], ValueId] = {}
        self._first: dict[tuple[object, ...], ValueId] = {}
        self.same: list[ValueId] = []
        #: other operands, equal to those of an operation, that it is written with elsewhere
        self.others: dict[ValueId, list[tuple[ValueId, ...]]] = {}

    def __getitem__(self, value: ValueId) -> Term:
        return self.terms[value]

    def leaf(self, dtype: DType, name: str) -> ValueId:
        """A new value that nothing is known of but its type: a parameter, a loop variable, the result of a call."""
        number = len(self.terms)
        return self._add(Term("leaf", dtype, (), Form(0, ((number, 1),)), name))

    def const(self, dtype: DType, value: int) -> ValueId:
        """A constant, wrapped into its type."""
        if dtype is DType.BOOL:
            wrapped = int(value != 0)
        else:
            lo = 0 if dtype.is_unsigned else -(1 << (dtype.bits - 1))
            wrapped = (value - lo) % (1 << dtype.bits) + lo
        return self._once(("const", dtype, wrapped), Term("const", dtype, (), Form(wrapped), constant=wrapped))

    def unary(self, op: str, a: ValueId) -> ValueId:
        """op a"""
        dtype = DType.BOOL if op == "not" else self[a].dtype
        return self._operation(op, dtype, (a,))

    def cast(self, a: ValueId, dtype: DType) -> ValueId:
        """`a` in another type; the same value where the types are one."""
        return a if self[a].dtype is dtype else self._operation("cast", dtype, (a,))

    def binary(self, op: str, a: ValueId, b: ValueId) -> ValueId | None:
        """a op b; None where the types do not mix."""
        x, y = self[a].dtype, self[b].dtype
        if op in COMPARISONS or op in LOGICAL or (x is y is DType.BOOL and op in ("bitand", "bitor", "bitxor")):
            dtype: DType | None = DType.BOOL
        else:
            dtype = promote_scalar(x, y)
        if dtype is None:
            return None
        return self._operation(op, dtype, self._once_divided(dtype, a, b) if op == "floordiv" else (a, b))

    def _once_divided(self, dtype: DType, a: ValueId, b: ValueId) -> tuple[ValueId, ValueId]:
        """Dividend and divisor of a // b: of (x // 4) // 5 they are x and 20, as the rule `quotient.quotient` says of signed numbers."""
        inner, by = self[a], self[b].constant
        if inner.op != "floordiv" or inner.dtype is not dtype or by is None or by <= 0 or not dtype.is_signed:
            return a, b
        x, first = inner.operands[0], self[inner.operands[1]].constant
        if first is None or first <= 0 or self[x].dtype is not dtype or first * by >= 1 << dtype.bits - 1:
            return a, b
        return x, self.const(dtype, first * by)

    def _operation(self, op: str, dtype: DType, operands: tuple[ValueId, ...]) -> ValueId:
        key_operands = operands
        if op not in ("add", "sub", "neg"):
            key_operands = tuple(self.same[o] for o in operands)
        if op in _COMMUTATIVE:
            key_operands = tuple(sorted(key_operands))
        key = (op, dtype, key_operands)
        found = self._numbers.get(key)
        if found is not None:
            ways = self.others.get(found, [])
            if operands != self[found].operands and operands not in ways:
                self.others[found] = [*ways, operands]
            return found
        form, whole = self._form(op, dtype, operands)
        number = len(self.terms)
        self._numbers[key] = number
        return self._add(Term(op, dtype, operands, Form(0, ((number, 1),)) if form is None else form, whole=whole))

    def _once(self, key: tuple[object, ...], term: Term) -> ValueId:
        if key not in self._numbers:
            self._numbers[key] = self._add(term)
        return self._numbers[key]

    def _add(self, term: Term) -> ValueId:
        number = len(self.terms)
        self.terms.append(term)
        key = (term.dtype.bits, term.dtype.is_unsigned, term.form)
        self.same.append(self._first.setdefault(key, number))
        return number

    # ---- forms ----

    def _form(self, op: str, dtype: DType, operands: tuple[ValueId, ...]) -> tuple[Form | None, bool]:
        """The form of an operation that is linear, None for one that is an atom; and whether it is whole."""
        if not dtype.is_int or any(self._foreign(o, dtype) for o in operands):
            return None, True
        forms = [self[o].form for o in operands]
        match op:
            case "add" | "sub":
                result = combine(forms[0], forms[1], 1 if op == "add" else -1)
            case "neg":
                result = scale(forms[0], -1)
            case "bitnot":
                result = combine(Form(-1), forms[0], -1)
            case "cast":
                result = forms[0]
            case "mul" if not forms[0].terms or not forms[1].terms:
                x, y = (forms[1], forms[0]) if not forms[0].terms else (forms[0], forms[1])
                result = scale(x, y.constant)
            case "shl" if not forms[1].terms and 0 <= forms[1].constant < dtype.bits:
                result = scale(forms[0], 1 << forms[1].constant)
            case _:
                return None, True
        near = balanced(result, dtype.bits)
        cancelled = self._cancelled(near, dtype)
        short = balanced(cancelled, dtype.bits)
        if len(short.terms) > MAX_TERMS:
            return None, True
        return short, near is result and short is cancelled and all(self[o].whole for o in operands)

    def _foreign(self, operand: ValueId, dtype: DType) -> bool:
        """True for an operand that is not its form modulo 2**bits of the result: it is widened, which needs that nothing wrapped."""
        term = self[operand]
        if not term.dtype.is_int or term.dtype.bits >= dtype.bits:
            return not term.dtype.is_int
        return term.constant is None or (term.dtype.is_unsigned and term.constant >> (term.dtype.bits - 1) != 0)

    def _cancelled(self, form: Form, dtype: DType) -> Form:
        """The form after the identities of quotients, each of which makes it shorter."""
        if len(form.terms) < 2:
            return form
        for atom, k in form.terms:
            term = self[atom]
            if term.op not in ("mod", "floordiv") or term.dtype.bits != dtype.bits:
                continue
            x, by = term.operands
            c = self[by].constant
            if c is None or c in (0, -1) or self[x].dtype is not term.dtype:
                continue
            shorter = self._shortened(form, atom, k, term, c)
            if shorter is not None and len(shorter.terms) < len(form.terms):
                return self._cancelled(shorter, dtype)
        return form

    def _shortened(self, form: Form, atom: ValueId, k: int, term: Term, c: int) -> Form | None:
        x, by = term.operands
        whole = self[x].form
        if term.op == "mod":
            quotient = self._operation("floordiv", term.dtype, (x, by))
            together = combine(form, Form(0, ((atom, k),)), -1)
            if form.coefficient(quotient) == k * c:  # k * (x % c) + k * c * (x // c) = k * x
                together = combine(together, Form(0, ((quotient, k * c),)), -1)
                return combine(together, whole, k)
            # -k * (x % c) + k * x = k * c * (x // c)
            return combine(combine(together, whole, k), Form(0, ((quotient, c),)), -k)
        if k % c:
            return None
        rest = self._operation("mod", term.dtype, (x, by))
        # k * x - k * c * (x // c) = k * (x % c)
        without = combine(combine(form, Form(0, ((atom, k),)), -1), whole, k // c)
        return combine(without, Form(0, ((rest, 1),)), -(k // c))
