"""Malformed printed text: a code, the line and column, the source line with a caret; nothing of it is run."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from effort import calls_of
from printed_support import function, program, text

from pypto_ir.diagnostics import Diagnostic, Place, Refused, Severity
from pypto_ir.dtypes import DType
from pypto_ir.formats import read_document
from pypto_ir.json_reader import read_program
from pypto_ir.json_writer import write_program
from pypto_ir.printed.program_reader import read_printed
from pypto_ir.printed.program_writer import write_text
from pypto_ir.printed.source import MAX_BYTES
from pypto_ir.stmt import Assign
from pypto_ir.types import Memory, TileType, Type, dims, tile_type
from pypto_ir.verify import verify_program

DUMPS = sorted((Path(__file__).parents[2].parent / "shared" / "dumps").glob("*.py"))
BODY_LINE, BODY_COLUMN = 8, 9  # where the first statement of `text(..)` stands
T = "pl.Tile[[16, 64], pl.FP32, pl.Mem.Vec]"
LOAD = f"t: {T} = pl.tile.load(x, [0, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)"


def refused(source: str) -> list[Diagnostic]:
    with pytest.raises(Refused) as caught:
        read_printed(source, "p.py")
    return [d for d in caught.value.diagnostics if d.severity is Severity.ERROR]


BODIES = [
    ("v: pl.Scalar[pl.INDEX] = m", "P201", 26),
    ("if q:\n    a: pl.Scalar[pl.INDEX] = n\nb: pl.Scalar[pl.INDEX] = a", "P202", None),
    ("v: pl.Scalar[pl.INDEX] = lambda: 1", "P301", 26),
    ("v: pl.Scalar[pl.BOOL] = 1 < n < 3", "P301", 25),
    ("v: pl.Scalar[pl.FP32] = f + n", "P302", 25),
    ("v: pl.Scalar[pl.BOOL] = q == q", "P302", 25),
    ("v: pl.Scalar[pl.INDEX] = n / 2", "P302", 26),
    ("v: pl.Scalar[pl.BOOL] = q and n", "P302", 31),
    ("v: pl.Scalar[pl.INDEX] = x + 1", "P302", 26),
    ("v: pl.Scalar[pl.INDEX] = 9223372036854775808", "P303", 26),
    ("v: pl.Scalar[pl.INT8] = 200", "P303", 25),
    ("v: pl.Scalar[pl.INDEX] = 1 // 0", "P303", 26),
    ("v: pl.Scalar[pl.INDEX] = 1 << 1000000000000", "P303", 26),
    ("v: pl.Scalar[pl.INDEX] = pl.const(300, pl.INT8)", "P303", 26),
    ("v: pl.Skalar[pl.INDEX] = n", "P311", 4),
    ("v: pl.Tile[[0], pl.FP32] = n", "P303", 13),
    ("v: pl.Tile[[4], pl.FP32, pl.TileView(fraktal=3)] = n", "P312", 46),
    ("v: pl.Tile[[4], pl.FP32, pl.TileView(valid_shape=[4, 4])] = n", "P312", 26),
    ("v: pl.Tile[[4], pl.FP32, pl.TileView(valid_shape=[5])] = n", "P312", 26),
    ('v: pl.Tile[[4], pl.FP32, pl.MemRef("a")] = n', "P311", 26),
    ("v: pl.Tensor[[4], pl.FP32, pl.DN] = n", "P311", 28),
    ("v: pl.Tensor[[4], pl.FP32, pl.TensorView(stride=[])] = n", "P312", 28),
    ("open('/etc/passwd')", "P401", 1),
    ("__import__('os').system('true')", "P401", 1),
    ("v = pl.frobnicate(n)", "P401", 5),
    ("t = pl.load(x, [0], [16, 64])", "P402", 5),
    ("self.other(n)", "P403", 1),
    ("self.k(n)", "P404", 1),
    ("v = pl.tile.unheard_of(x)", "P405", 1),
    ("import os", "P601", 1),
    ("del n", "P601", 1),
    ("n", "P601", 1),
    ("v: pl.Scalar[pl.INDEX] = pl.yield_(n)", "P602", 1),
    ("break", "P602", 1),
    ("if q:\n    return", "P602", None),
    ("return\nv = n", "P602", 1),
    ("if q:\n    a: pl.Scalar[pl.INDEX] = pl.yield_(n)", "P603", None),
    ("for a, (b,) in pl.range(2, init_values=(n,)):\n    pass", "P603", 1),
    ("return n", "P603", 1),
    ("for a in range(3):\n    pass", "P604", 10),
    ("for a in pl.range(0, 4, 0):\n    pass", "P604", 10),
    ("for a, (b,) in pl.range(2, init_values=()):\n    pass", "P604", 5),
    ("with open('x'):\n    pass", "P605", 6),
    (f"{LOAD}\nu: {T} = pl.tile.cast(t, target_type=pl.FP99, mode='round')", "P301", None),
    (f"{LOAD}\nu: {T} = pl.tile.move(t, target_memory=pl.Mem.Moon)", "P301", None),
]


@pytest.mark.parametrize(("body", "code", "column"), BODIES, ids=lambda v: str(v)[:50])
def test_bodies(body: str, code: str, column: int | None) -> None:
    source = text(body)
    first = refused(source)[0]
    assert first.code == code
    assert first.place.file == "p.py" and first.place.function == "k"
    if column is not None:
        assert (first.place.line, first.place.column) == (BODY_LINE, BODY_COLUMN - 1 + column)
    assert first.excerpt is not None
    shown, caret = first.excerpt.split("\n")
    line = source.split("\n")[(first.place.line or 0) - 1]
    assert shown in line and caret.strip() == "^"
    assert shown[len(caret) - 1] == line[(first.place.column or 0) - 1]


WHOLE = [
    ("", "P101"),
    ("class P:\n    pass", "P102"),
    (program(function("pass")) + "\n" + function("pass"), "P103"),
    (program(function("pass", decorator="(type=pl.FunctionType.Odd)")), "P104"),
    (program("    def k():\n        pass"), "P104"),
    (program(function("pass", params="a")), "P105"),
    (program(function("pass", params="*a: pl.Ptr")), "P105"),
    (program(function("pass"), head="A = open('x')\n"), "P301"),
    (program(function("pass"), head="print(1)\n"), "P102"),
    (program("    x = 1"), "P102"),
    ("def f(:", "P002"),
    ("a\0b", "P002"),
    ("x = '\ud800'", "P002"),
    ("\ufeffx", "P002"),
    ('x = """', "P002"),
    (text("v = " + "(" * 300 + "n" + ")" * 300), "P003"),
    (text("v = " + "-" * 100_000 + "n"), "P003"),
    (text("v = " + " + ".join(["n"] * 5000)), "P003"),
    (text("v = " + " and ".join(["q"] * 5000)), "P003"),
    (text("v = n" + "[0]" * 5000), "P003"),
    (text("\n".join(" " * i + "if q:" for i in range(60)) + "\n" + " " * 60 + "pass"), "P003"),
    (text("v = " + "9" * 100_000), "P002"),
    (text("v = 0x" + "f" * 100_000), "P303"),
    (text("v = 10**10**10**10"), "P303"),
    ("#" * (MAX_BYTES + 1), "P001"),
]


@pytest.mark.parametrize(("source", "code"), WHOLE, ids=lambda v: str(v)[:40])
def test_whole_texts(source: str, code: str) -> None:
    found = refused(source)
    assert found[0].code == code
    assert len("".join(map(str, found))) < 20_000
    if code != "P001":
        assert found[0].place.line is not None and found[0].place.column is not None
    assert calls_of(lambda: refused(source)) < 10_000


def test_every_error_is_found_and_the_list_is_bounded() -> None:
    found = refused(text("a: pl.Scalar[pl.INDEX] = zz\nb: pl.Scalar[pl.INDEX] = a\nc: pl.Scalar[pl.INDEX] = yy"))
    assert [(d.code, d.place.line) for d in found] == [("P201", BODY_LINE), ("P201", BODY_LINE + 2)]
    many = refused(text("\n".join(f"a{i} = zz" for i in range(1000))))
    assert len(many) == 101 and many[-1].code == "P199"


def test_a_long_line_is_cut_around_the_caret() -> None:
    found = refused(text("v: pl.Scalar[pl.INDEX] = " + " " * 500 + "zz" + " " * 500))[0]
    shown, caret = (found.excerpt or "").split("\n")
    assert len(shown) <= 160 and shown[len(caret) - 1 :].startswith("zz")


def test_columns_count_characters() -> None:
    found = refused(text("pl.system.say(w='über', v=zz)"))[0]
    assert found.place.column == BODY_COLUMN - 1 + 27


def test_diagnostics_about_the_program_get_the_lines_of_the_text() -> None:
    document = read_document(text(f"{LOAD}\nif q:\n    u: {T} = pl.tile.exp(t)"), "p.py")
    given = [
        Diagnostic("T101", "by path", Place(path="$.functions[0].body[1].then[0].args[0]", function="k")),
        Diagnostic("T101", "by statement", Place(function="k", statement="u = tile.exp")),
        Diagnostic("T101", "by function", Place(function="k")),
        Diagnostic("T101", "nowhere", Place(path="$.functions[7]")),
    ]
    lines = [(d.place.line, d.place.column, d.place.file) for d in document.located(given)]
    assert lines[:3] == [(BODY_LINE + 2, 13, "p.py")] * 2 + [(BODY_LINE - 1, 5, "p.py")]
    assert lines[3][0] is None
    assert document.located(given)[0].excerpt == f"            u: {T} = pl.tile.exp(t)\n            ^"


def test_nothing_is_executed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for body in (f"open({str(mark)!r}, 'w')", f"v = [open({str(mark)!r}, 'w') for _ in (1,)][0]"):
        refused(text(body))
        refused(program(function("pass"), head=f"A = {body.removeprefix('v = ')}\n"))
    refused(program(f"    @open({str(mark)!r}, 'w')\n    def k():\n        pass"))
    assert not mark.exists()


WARNINGS = [
    (f"{LOAD}\nu: pl.Tile[[16, 32], pl.FP32, pl.Mem.Vec] = pl.tile.exp(t)", "P501", "[16, 64]", "[16, 32]"),
    (f"{LOAD}\nu: pl.Tile[[16, 64], pl.FP16, pl.Mem.Vec] = pl.tile.exp(t)", "P501", "pl.FP32", "pl.FP16"),
    (f"{LOAD}\nu: pl.Tile[[16, 64], pl.FP32, pl.Mem.Mat] = pl.tile.exp(t)", "P501", "Mem.Vec", "Mem.Mat"),
    ("v: pl.Scalar[pl.FP16] = f", "P501", "pl.FP32", "pl.FP16"),
    (f"{LOAD}\nu: {T} = pl.tile.exp(t, t)", "P502", "takes 1 operands", "found 2"),
    ("if q:\n    break_ = 1\n    # the end\n", "P503", "dropped", "comment"),
]


@pytest.mark.parametrize(("body", "code", "one", "two"), WARNINGS, ids=lambda v: str(v)[:50])
def test_warnings(body: str, code: str, one: str, two: str) -> None:
    printed = read_printed(text(body), "p.py")
    assert [w.code for w in printed.warnings] == [code]
    warning = printed.warnings[0]
    assert one in warning.message and two in warning.message
    assert warning.severity is Severity.WARNING and warning.place.line is not None and warning.excerpt


def types(body: str) -> list[Type]:
    return [s.targets[0].type for s in read_printed(text(body)).program.functions[0].body if isinstance(s, Assign)]


def test_an_annotation_refines_and_an_open_one_is_filled() -> None:
    body = f"{LOAD}\nu: pl.Tile[[16, 64], pl.FP32, pl.Mem.Mat] = pl.tile.exp(t)\nw: pl.Tile[[16, 64], pl.FP32] = pl.tile.exp(t)"
    load, exp, filled = types(body)
    assert filled == load
    assert isinstance(exp, TileType) and exp.memory is Memory.MAT


def test_a_contradicted_annotation_is_believed_where_the_type_rule_is_not_pinned_down() -> None:
    stated = "pl.Tile[[16, 16], pl.FP16, pl.Mem.Vec]"
    body = f"{LOAD}\nu: {stated} = pl.tile.exp(t)\nv: {stated} = pl.tile.gather_mask(t, mask_pattern=1)"
    load, exp, gathered = types(body)
    assert exp == load
    assert gathered == tile_type(dims(16, 16), DType.FP16, Memory.VEC)


BELIEVED = {
    "P501": f"{LOAD}\nv: pl.Tile[[16, 16], pl.FP16, pl.Mem.Vec] = pl.tile.gather_mask(t, mask_pattern=1)",
    "P502": "v: pl.Tensor[[64, 64], pl.FP32] = pl.tensor.add(x, y)\nw: pl.Tensor[[64, 64], pl.FP32] = pl.tensor.exp(v)",
}


@pytest.mark.parametrize("code", BELIEVED)
def test_what_is_believed_passes_the_verifier_and_is_kept_in_program_files(code: str) -> None:
    source = text(BELIEVED[code], params="x: pl.Tensor[[64, 64], pl.FP32], y: pl.Tensor[[3, 64], pl.FP32]")
    printed = read_printed(source, "p.py")
    assert [w.code for w in printed.warnings] == [code]
    assert verify_program(printed.program) == []
    assert write_text(printed.program) == source
    assert read_program(write_program(printed.program)) == printed.program


def test_flattened_loads_are_no_warning() -> None:
    body = "t: pl.Tile[[32, 64], pl.FP32, pl.Mem.Vec] = pl.tile.load(y, [0, 0, 0], [2, 16, 64], [2, 16, 64], target_memory=pl.Mem.Vec)"
    assert read_printed(text(body, params="y: pl.Tensor[[2, 16, 64], pl.FP32]")).warnings == ()


def test_damaged_texts_are_read_or_refused_with_codes() -> None:
    """A thousand dumps with tokens and lines lost, doubled and swapped."""
    token = re.compile(r"\w+|\s+|[^\w\s]")
    sources = [p.read_text() for p in DUMPS]
    words = [t for s in sources[:6] for t in token.findall(s) if not t.isspace()]
    rng, count, good = random.Random(20), 0, 0
    while count < 1000:
        head, *parts = re.split(r"(?=    @pl\.function)", rng.choice(sources))
        tokens = token.findall(head + rng.choice(parts).rstrip("\n"))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(tokens))
            match rng.randrange(4):
                case 0:
                    tokens[at] = rng.choice(words)
                case 1:
                    del tokens[at]
                case 2:
                    tokens.insert(at, rng.choice(words))
                case _:
                    other = rng.randrange(len(tokens))
                    tokens[at], tokens[other] = tokens[other], tokens[at]
        count += 1
        try:
            read_printed("".join(tokens), "p.py")
            good += 1
        except Refused as found:
            assert all(d.code.startswith("P") and d.place.line is not None for d in found.diagnostics)
    assert 0 < good < count


def test_reading_takes_the_same_work_for_every_statement() -> None:
    """Half a megabyte of kernels; `benchmarks performance` holds its seconds against those of the parser."""
    body = "\n".join(
        f"t{i}: {T} = pl.tile.load(x, [{i % 48}, 0], [16, 64], [16, 64], target_memory=pl.Mem.Vec)\n"
        f"u{i}: {T} = pl.tile.muls(t{i}, 2.0)\n"
        f"o{i}: pl.Tensor[[64, 64], pl.FP32] = pl.tile.store(u{i}, [{i % 48}, 0], out)"
        for i in range(40)
    )

    def calls(count: int) -> int:
        source = program(*(function(body).replace("def k(", f"def k{n}(") for n in range(count)))
        assert len(source) > 8_000 * count
        return calls_of(lambda: read_printed(source))

    assert calls(50) < 10.2 * calls(5)
    assert calls(50) < 500 * 50 * 3 * 40
