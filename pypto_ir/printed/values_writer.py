"""Calls, submits and literals as PyPTO prints them.

`Call("tile.and", (a, b))` is `pl.tile.and_(a, b)`; keyword arguments print in a fixed order per op, words of
enumerations as `pl.Mem.Mat`, strings in single quotes (in attributes in double ones), and operands such as
the value of `tile.full` as keywords.
"""

from __future__ import annotations

from collections.abc import Mapping

from pypto_ir.expr import Const, MakeTuple
from pypto_ir.ops.registry import find_op
from pypto_ir.printed.exprs_writer import ExprWriter, float_text
from pypto_ir.printed.words import (
    DTYPE,
    FILLS,
    KEYWORD_OPERANDS,
    LEADING_KEYWORD,
    MEMBERS,
    OF_ATTRIBUTE,
    OF_KWARG,
    enum_of_record,
    printed_op,
)
from pypto_ir.stmt import Call, FunctionCall, Keywords, Literal, Record, Submit, Value

#: keyword arguments in printed order where it is not the stored one, and those that always print
_ALWAYS: dict[str, tuple[str, ...]] = {
    "tile.create": ("dtype", "target_memory"),
    "tile.move": ("target_memory",),
    "tile.extract": ("target_memory",),
    "tile.cast": ("target_type", "mode"),
    "tile.fillpad": ("pad_value",),
    "tile.fillpad_inplace": ("pad_value",),
    "tile.fillpad_expand": ("pad_value",),
    "tile.ci": ("dtype", "descending"),
    "tile.tri": ("dtype", "upper"),
    "tile.random": ("dtype", "rounds"),
    "tile.gemv": ("acc_phase",),
    "tile.gemv_acc": ("acc_phase",),
    "tile.gemv_bias": ("acc_phase",),
    "tile.load": ("target_memory",),
    "tile.gather_row": ("transpose",),
    "tile.mgather": ("coalesce",),
    "tile.gather_mask": ("mask_pattern",),
    "tile.gather_compare": ("cmp_mode", "offset", "out_cols"),
    "tile.mrgsort_format2": ("exhausted",),
    "tile.scatter_update": ("dim",),
    "tile.cmp": ("cmp_type",),
    "tile.cmps": ("cmp_type",),
    "tensor.create": ("dtype", "layout"),
    "tensor.cast": ("target_type", "mode"),
    "tensor.matmul": ("a_trans", "b_trans", "c_matrix_nz"),
    "tensor.matmul_acc": ("a_trans", "b_trans"),
}
_SUBMIT_ORDER = ("deps", "dumps", "core_num", "sync_start", "allow_early_resolve", "predicate", "device")


class ValueWriter:
    """Writes the values that statements define."""

    def __init__(self, exprs: ExprWriter) -> None:
        self.exprs = exprs

    def text(self, value: Value) -> str:
        match value:
            case Call():
                return self._call(value)
            case FunctionCall(function=function, args=args, kwargs=kwargs, attrs=attrs):
                parts = [self.exprs.text(a) for a in args]
                parts += [f"{key}={self.literal(v, None)}" for key, v in kwargs]
                return f"self.{function}({', '.join([*parts, *self._attrs(attrs)])})"
            case Submit():
                return self._submit(value)
        return self.exprs.text(value)

    def _call(self, call: Call) -> str:
        op, kwargs = call.op, call.kwargs
        name = printed_op(op)
        if op == "tensor.add" and len(call.args) == 2 and isinstance(call.args[1], Const):
            name = "pl.tensor.adds"
        parts: list[str] = []
        leading = LEADING_KEYWORD.get(op)
        if leading is not None:
            parts += [self.literal(v, "Mem") for key, v in kwargs if key == leading]
            kwargs = tuple((key, v) for key, v in kwargs if key != leading)
        moved = {i: (key, late) for i, key, late in KEYWORD_OPERANDS.get(op, ())}
        before: list[str] = []
        after: list[str] = []
        text = self.exprs.text
        args = call.args
        if op == "tile.load" and len(args) == 3:
            args = (*args, args[2])  # a load always prints its valid extents
        for i, arg in enumerate(args):
            if i not in moved:
                parts.append(text(arg))
                continue
            key, late = moved[i]
            if isinstance(arg, MakeTuple) and not arg.items:
                continue
            shown = _bare(arg) if op in FILLS and isinstance(arg, Const) else text(arg)
            if op == "tile.mgather" and i == 2 and isinstance(arg, MakeTuple):
                key = "valid_shape"
            (after if late else before).append(f"{key}={shown}")
        parts += before
        if kwargs or op in _ALWAYS:
            parts += self._kwargs(op, kwargs)
        return f"{name}({', '.join([*parts, *after, *self._attrs(call.attrs)])})"

    def _kwargs(self, op: str, kwargs: Keywords) -> list[str]:
        always = _ALWAYS.get(op, ())
        given = dict(kwargs)
        declared = find_op(op) if always else None
        ordered: list[tuple[str, Literal]] = []
        for key in always:
            if key in given:
                ordered.append((key, given.pop(key)))
            elif declared is not None:
                kwarg = declared.kwarg(key)
                if kwarg is not None and kwarg.default is not None:
                    ordered.append((key, kwarg.default))
        ordered += given.items()
        return [f"{key}={self.literal(v, OF_KWARG.get(key))}" for key, v in ordered]

    def _submit(self, value: Submit) -> str:
        fields = dict(value.fields)
        parts = [f"self.{value.function}", *(self.exprs.text(a) for a in value.args)]
        for key in _SUBMIT_ORDER:
            if key not in fields:
                continue
            field = fields[key]
            if key == "predicate" and isinstance(field, tuple):
                items = ", ".join(self.literal(v, None) for v in field)
                parts.append(f"predicate=({items}{',' if len(field) == 1 else ''})")
            elif field is not False:
                parts.append(f"{key}={self.literal(field, None)}")
        name = "pl.spmd_submit" if "core_num" in fields else "pl.submit"
        return f"{name}({', '.join([*parts, *self._attrs(value.attrs)])})"

    def _attrs(self, attrs: Keywords) -> list[str]:
        return [f"attrs={self.record(attrs, OF_ATTRIBUTE)}"] if attrs else []

    def record(self, items: Keywords, enums: Mapping[str, str]) -> str:
        """Attributes: `{"k": v}`."""
        shown = (f"{quoted(key)}: {self.literal(v, enums.get(key), attribute=True)}" for key, v in items)
        return "{" + ", ".join(shown) + "}"

    def literal(self, value: Literal, enum: str | None, attribute: bool = False) -> str:
        """A literal; a word of the enumeration `enum` as its member."""
        match value:
            case None | bool() | int():
                return str(value)
            case float():
                return float_text(value)
            case str():
                if enum is not None and value in MEMBERS[enum]:
                    return f"pl.{enum}.{value}" if enum != DTYPE else f"pl.{value}"
                return quoted(value) if attribute else quoted(value, "'")
            case tuple():
                return "[" + ", ".join(self.literal(v, enum, attribute) for v in value) + "]"
            case Record(items=items):
                name = enum_of_record(value)
                if name is not None:
                    return name if name.startswith("pld.") else f"pl.{name}"
                return self.record(items, {})
        return self.exprs.text(value)


def _bare(c: Const) -> str:
    """The value of a fill, bare whatever its dtype."""
    return float_text(c.value) if isinstance(c.value, float) else str(c.value)


def quoted(text: str, quote: str = '"') -> str:
    """A string literal on one line."""
    body = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
    for char, escape in (("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\0", "\\x00")):
        body = body.replace(char, escape)
    return quote + "".join(c if c.isprintable() else _escaped(c) for c in body) + quote


def _escaped(c: str) -> str:
    code = ord(c)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
