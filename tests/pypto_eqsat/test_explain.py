"""`explain`: choices with true runners-up and the rules that made them, what memory decided, and what stands in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import KERNELS, ROOT, cli
from helpers import SHARED, function, give, incore, let, load, loop, out, program, ret, store, tensor, tile

from pypto_eqsat.explain_text import text_of, values_of
from pypto_eqsat.explanation import Explanation, explain
from pypto_ir.diagnostics import Refused
from pypto_ir.formats import read_any
from pypto_ir.json_writer import write_program
from pypto_ir.stmt import Program
from tests.carried_programs import split_k

NAMES = tuple(sorted(file.stem for file in KERNELS.glob("*.json")))
DUMPS = tuple(f for f in sorted((SHARED / "dumps").glob("*.py")) if "flattened" not in f.stem)


def exponential(*shape: int) -> Program:
    at = [0] * len(shape)
    return incore(
        [tensor("x", *shape), out("y", *shape)],
        [load("t", "x", at, list(shape)), let("e", "tile.exp", "t"), store("o", "e", at, "y"), ret("o")],
    )


def told(p: Program) -> Explanation:
    return explain(p, validate=False)


def test_choice_names_values_rules_runner_up_and_its_cost() -> None:
    (f,) = told(exponential(4, 16, 64)).functions
    first = f.choices[0]
    assert [(w.name, w.rules) for w in first.ways] == [("t", ("flat.load",)), ("e", ("flat.op",)), ("o", ("store.flat",))]
    assert first.runner_up is not None and first.runner_up.proved
    assert [(w.name, w.rules) for w in first.runner_up.ways] == [("t", ("pages.load",)), ("e", ("pages.op",)), ("o", ("store.pages",))]
    assert first.runner_up.cost > first.cost
    assert dict((pipe, (a, b)) for pipe, a, b in first.runner_up.pipes)["S"][1] > 0
    text = text_of(told(exponential(4, 16, 64)), "p")
    assert "loaded as one 2-D tile [64, 64] FP32" in text and "loaded page by page: 4 of [16, 64] FP32" in text
    assert "the best without it:" in text and "because S would take" in text


def test_capacity_that_decided_is_named_with_its_bytes_and_the_statement() -> None:
    (f,) = told(exponential(8, 96, 128)).functions
    (choice,) = f.choices
    assert choice.runner_up is None and [d.code for d in choice.faults] == ["M001"]
    assert choice.capacity is not None
    assert "Vec holds 188,416 bytes, it would need 786,432 at `e = tile.exp`" in choice.capacity
    assert "loaded as one 2-D tile [768, 128] FP32" in choice.capacity


def test_capacity_is_not_named_where_everything_fits() -> None:
    (f,) = told(exponential(4, 16, 64)).functions
    assert [c.capacity for c in f.choices] == [None] * len(f.choices)


def test_value_that_is_the_tile_of_another_is_told() -> None:
    p = incore(
        [tensor("x", 2, 16, 64), out("y", 32, 64)],
        [load("t", "x", [0, 0, 0], [2, 16, 64]), let("r", "tile.reshape", "t", [32, 64]), store("o", "r", [0, 0], "y"), ret("o")],
    )
    (f,) = told(p).functions
    assert f.same == [("r", "t")]
    assert "r is the 2-D tile of t" in text_of(told(p), "p")


def test_refused_function_gives_the_chain_of_obstacles_and_others_are_explained_all_the_same() -> None:
    p = program(
        function("given", [tile("t", 2, 16, 64), out("y", 2, 16, 64)], [store("o", "t", [0, 0, 0], "y"), ret("o")]),
        function(
            "fine",
            [tensor("x", 2, 16, 64), out("y", 2, 16, 64)],
            [load("t", "x", [0, 0, 0], [2, 16, 64]), store("o", "t", [0, 0, 0], "y"), ret("o")],
        ),
    )
    e = told(p)
    assert e.result is None and e.diagnostics
    given, fine = e.functions
    assert (given.status, fine.status) == ("refused", "lowered")
    assert given.obstacles and fine.choices
    assert "L105" in text_of(e, "p")


def test_chain_leads_through_loops_to_what_waits(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "refused.json").read_text()
    e = told(read_any(text, "refused.json"))
    (f,) = e.functions
    chains = {d.place.statement: chain for d, chain in f.obstacles}
    assert chains["x_tile = tile.load"] == ["x_tile = tile.load", "out_1 = tile.store"]
    shown = text_of(e, "refused.json")
    assert "so none of these can be written: x_tile = tile.load <- out_1 = tile.store" in shown
    assert "the same of out_1 = tile.store, which waits for x_tile = tile.load" in shown


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_is_explained_and_no_proved_runner_up_is_cheaper(name: str) -> None:
    p = read_any((KERNELS / f"{name}.json").read_text(), name)
    e = told(p)
    assert e.result is not None
    for f in e.functions:
        assert f.lowered is not None and f.memory
        for choice in f.choices:
            assert choice.ways
            assert choice.runner_up is None or choice.runner_up.cost >= choice.cost * (1 - 1e-9)
            assert all(w.rules for w in choice.ways if w.name != "the whole function" and w.where is None)
    assert json.loads(json.dumps(values_of(e, name))) == values_of(e, name)


@pytest.mark.parametrize("file", DUMPS, ids=lambda f: f.stem)
def test_every_dump_is_explained(file: Path) -> None:
    try:
        e = told(read_any(file.read_text(), file.name))
    except Refused:
        pytest.fail("a program that is read is explained, refused or not")
    assert all(f.name in text_of(e, file.name) for f in e.functions)


def test_explanation_is_the_same_for_any_hash_seed() -> None:
    shown = set()
    for seed in ("0", "77"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "pypto_eqsat", "explain", str(KERNELS / "batch_acc_k_loop.json")]
        shown.add(subprocess.run(command, env=env, capture_output=True, check=True, timeout=120).stdout)
    assert len(shown) == 1


def test_command_prints_text_or_json_and_ends_with_1_where_the_program_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text(write_program(exponential(4, 16, 64)))
    done = cli("explain", file)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{file}: 1 in-core function\n\nfunction main: lowered, ")
    values = json.loads(cli("explain", "--format", "json", file).out)
    assert values["functions"][0]["choices"][0]["runner_up"]["proved"] is True
    limited = json.loads(cli("explain", "--format", "json", "--choices", "1", file).out)
    assert limited["functions"][0]["left_out"] == 2
    bad = cli("explain", ROOT / "examples" / "refused.json")
    bad.refused_with("L001")
    assert "function dynamic_width: refused" in bad.out
    cli("explain", file, "--without-rule", "nonsense").refused_with("U004")


def test_command_refuses_a_wrong_program_as_check_does(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text(write_program(exponential(4, 16, 64)).replace('"args": ["t"]', '"args": ["missing"]'))
    done = cli("explain", file)
    assert done.out == ""
    assert done.code == 1 and "missing" in done.err


def test_explaining_a_loop_names_what_is_handed_on() -> None:
    shape = [2, 16, 64]
    p = incore(
        [tensor("x", *shape), out("y", *shape)],
        [
            load("t", "x", [0, 0, 0], shape),
            loop("k", [0, 4, 1], {"c": "t"}, [let("d", "tile.exp", "c"), give("d")], ["f"]),
            store("o", "f", [0, 0, 0], "y"),
            ret("o"),
        ],
    )
    (f,) = told(p).functions
    assert any("handed on" in w.words for c in f.choices for w in c.ways)


def test_narrowed_accumulator_is_told_from_the_authors_text_on() -> None:
    before = split_k([64, 256])
    explanation = told(before)
    (f,) = explanation.functions
    assert f.lowered is not None and (f.status, len(f.lowered.passes)) == ("lowered", 2)
    assert f.lowered.passes[0].function is before.functions[0]
    assert "upstream's program, which is a better start" not in text_of(explanation, "split_k.json")
