"""The report: well-formed, whole in itself, readable, the same bytes every time, and about the run that it is of."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import html5lib
import pytest
from cli_support import KERNELS, ROOT, cli
from helpers import incore, let, load, out, ret, store, tensor

from pypto_eqsat.driver import optimize
from pypto_eqsat.record import Record
from pypto_eqsat.report.page import page
from pypto_eqsat.report.sides import sides, stretches
from pypto_ir.diagnostics import Refused
from pypto_ir.formats import read_any
from pypto_ir.stmt import Program

NAMES = tuple(sorted(file.stem for file in KERNELS.glob("*.json")))
#: what loads or runs something
FORBIDDEN = re.compile(r"<(?:script|link|iframe|img|object|embed|base)\b|@import|url\(|\son\w+=|(?:src|href|action)=\"(?!#)", re.IGNORECASE)


def made(program: Program, name: str = "p.json", **options: Any) -> str:
    record = Record()
    try:
        result = optimize(program, record=record, policy_cost=True)
    except Refused as refused:
        return page(program, name, record, None, refused.diagnostics, **options)
    return page(program, name, record, result, result.diagnostics, **options)


@cache
def kernel_page(name: str) -> str:
    return made(read_any((KERNELS / f"{name}.json").read_text(), name), f"{name}.json")


def tree(text: str) -> Any:
    """The page as elements; a fault of the mark-up is an exception."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)


def chain(length: int, *shape: int) -> Program:
    at = [0] * len(shape)
    names = [f"y{i}" for i in range(length)]
    body = [let(name, "tile.exp", before) for name, before in zip(names, ["x", *names], strict=False)]
    return incore(
        [tensor("a", *shape), out("b", *shape)], [load("x", "a", at, list(shape)), *body, store("o", names[-1], at, "b"), ret("o")]
    )


@pytest.mark.parametrize("name", NAMES)
def test_page_of_every_kernel_is_well_formed_and_whole_in_itself(name: str) -> None:
    text = kernel_page(name)
    root = tree(text)
    assert FORBIDDEN.search(text) is None
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    assert len(ids) == len(set(ids))
    links = [e.get("href") for e in root.iter("a")]
    assert all(link.startswith("#") and link[1:] in ids for link in links)


@pytest.mark.parametrize("name", NAMES)
def test_page_of_every_kernel_can_be_read_by_everyone(name: str) -> None:
    root = tree(kernel_page(name))
    assert root.get("lang") == "en"
    assert root.find("head/title").text
    assert root.find("head/meta[@name='viewport']").get("content") == "width=device-width, initial-scale=1"
    levels = [int(e.tag[1]) for e in root.iter() if e.tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), "no level of headings is left out"
    for table in root.iter("table"):
        assert table.find("caption") is not None
        assert all(th.get("scope") in ("col", "row") for th in table.iter("th"))
    pictures = [e for e in root.iter() if e.tag.rpartition("}")[2] == "svg"]
    assert pictures and all(e.get("role") == "img" and e.get("aria-label") for e in pictures)
    assert all(details.find("summary") is not None for details in root.iter("details"))


@pytest.mark.parametrize("name", NAMES)
def test_page_says_what_the_run_gave(name: str) -> None:
    text = kernel_page(name)
    result = optimize(read_any((KERNELS / f"{name}.json").read_text(), name), policy_cost=True)
    words = " ".join("".join(tree(text).itertext()).split())
    for function, stats in result.stats["functions"].items():
        assert function in words and f"{stats['cost']:,.2f}".removesuffix(".00") + " cycles" in words
        for memory, size in stats["peak_bytes"].items():
            assert f"{memory}: at most {size:,} bytes live" in words
    assert "seconds" not in words and "Phases" not in words


def colours(css: str) -> list[dict[str, str]]:
    """The variables of the light and of the dark page."""
    light, dark = (dict(re.findall(r"--(\w+):(#[0-9a-f]{3,6})", part)) for part in css.split("@media (prefers-color-scheme:dark)")[:2])
    return [light, {**light, **dark}]


def luminance(colour: str) -> float:
    text = colour[1:] if len(colour) == 7 else "".join(c * 2 for c in colour[1:])
    channels = [int(text[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def test_text_has_the_contrast_that_wcag_asks_for_in_light_and_dark() -> None:
    css = (files("pypto_eqsat.report") / "page.css").read_text()
    top = css.partition("*{box-sizing")[0]
    pairs = [(text, on) for text in ("text", "muted", "accent", "good", "warn", "bad") for on in ("bg", "panel")]
    pairs += [("text", on) for on in ("old", "new", "oldmark", "newmark", "soft", "on")]
    pairs += [("muted", on) for on in ("soft", "old", "new")] + [("panel", "accent")]
    for palette in colours(top):
        for text, on in pairs:
            dark, light = sorted((luminance(palette[text]), luminance(palette[on])))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, on, palette[text], palette[on])


def test_choice_shows_both_ways_and_what_the_choice_saves() -> None:
    text = made(chain(1, 4, 16, 64))
    root = tree(text)
    (first, *_) = [e for e in root.iter("article") if e.get("class") == "choice"]
    words = " ".join("".join(first.itertext()).split())
    assert "saves" in words and "cycles" in words
    assert "loaded as one 2-D tile [64, 64] FP32 flat.load" in words
    assert "loaded page by page: 4 of [16, 64] FP32 pages.load" in words


def test_capacity_that_decided_stands_in_the_way() -> None:
    words = " ".join("".join(tree(made(chain(1, 8, 96, 128))).itertext()).split())
    assert "Capacity decided:" in words and "Vec holds 188,416 bytes, it would need 786,432" in words
    assert "nothing else fits" in words


def test_refused_program_gives_a_page_of_its_obstacles(tmp_path: Path) -> None:
    text = made(read_any((ROOT / "examples" / "refused.json").read_text(), "refused.json"))
    words = " ".join("".join(tree(text).itertext()).split())
    assert "Refused." in words and "L001" in words
    assert "x_tile = tile.load → out_1 = tile.store" in words
    done = cli("optimize", ROOT / "examples" / "refused.json", "--report", tmp_path / "r.html", "-o", tmp_path / "out.json")
    assert done.code == 1 and not (tmp_path / "out.json").exists()
    assert "Refused." in (tmp_path / "r.html").read_text()


def test_names_of_the_user_are_text_and_never_mark_up() -> None:
    program = read_any((ROOT / "examples" / "scale_add.json").read_text().replace('"name": "', '"name": "', 1), "p")
    text = made(program, "<script>alert(1)</script>&.json")
    assert "<script" not in text and "&lt;script&gt;alert(1)&lt;/script&gt;&amp;.json" in text


def test_large_function_is_shown_without_a_picture_of_its_e_graph() -> None:
    text = made(chain(80, 2, 16, 64), examined=2)
    words = " ".join("".join(tree(text).itertext()).split())
    assert "too many for a picture" in words
    assert "of fewer cycles not decided anew" in words


def test_page_is_the_same_for_any_hash_seed_and_times_come_only_where_asked_for(tmp_path: Path) -> None:
    pages = []
    for seed in ("0", "99"):
        target = tmp_path / f"{seed}.html"
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [
            sys.executable,
            "-m",
            "pypto_eqsat",
            "optimize",
            str(KERNELS / "q_proj_4d.json"),
            "-o",
            os.devnull,
            "--report",
            str(target),
        ]
        subprocess.run(command, env=env, check=True, timeout=120)
        pages.append(target.read_bytes())
    assert pages[0] == pages[1]
    done = cli("optimize", KERNELS / "add_3d.json", "-o", tmp_path / "o.json", "--report", tmp_path / "t.html", "--report-times")
    assert (done.code, done.err) == (0, "")
    assert "Seconds of this run" in (tmp_path / "t.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("-o", "a.html", "--report", "a.html"), "U001"),
        (("--stats", "s.json", "--report", "s.json"), "U001"),
        (("--report", "r.html", "--remarks-file", "r.html"), "U001"),
        (("--report", "missing/r.html"), "U003"),
        (("--report", "."), "U003"),
    ],
)
def test_report_that_cannot_be_written_is_said_before_any_work(tmp_path: Path, arguments: tuple[str, ...], code: str) -> None:
    done = cli("optimize", KERNELS / "add_3d.json", *arguments, cwd=tmp_path)
    done.refused_with(code)
    assert done.code == 2 and list(tmp_path.iterdir()) == []


def test_lines_that_define_one_name_stand_beside_each_other_and_differences_are_marked() -> None:
    before = ["def f(a):", "    x: A = load(a, 1)", "    y: B = exp(x)", "    return y"]
    after = ["def f(a):", "    v: V = view(a)", "    x: A = load(v, 1)", "    y: B = exp(x)", "    return y"]
    rows = sides(before, after)
    assert [row.kind for row in rows] == ["same", "added", "changed", "same", "same"]
    assert [piece for piece, marked in rows[2].before or () if marked] == ["a"]
    assert [piece for piece, marked in rows[2].after or () if marked] == ["v"]
    for row in rows:
        assert "".join(p for p, _ in row.before or ()) in ["", *before]
    assert ["".join(p for p, _ in row.after) for row in rows if row.after] == after


def test_long_runs_of_equal_lines_are_folded() -> None:
    before = [f"    x{i}: A = exp(x)" for i in range(40)]
    after = [*before[:20], "    new: A = exp(y)", *before[20:]]
    parts = stretches(before, after)
    assert [part.folded for part in parts] == [True, False, True]
    assert sum(len(part.rows) for part in parts) == 41
