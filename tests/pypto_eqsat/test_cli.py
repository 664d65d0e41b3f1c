"""The commands: what they print, what they exit with, and what they do not load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import ADD, KERNELS, ROOT, cli

from pypto_eqsat import commands
from pypto_eqsat.cli import main
from pypto_ir.json_reader import read_program
from pypto_ir.schema import schema


def modules_loaded(*arguments: str) -> set[str]:
    code = (
        "import sys, contextlib, io\n"
        "from pypto_eqsat.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        f"    code = main({list(arguments)!r})\n"
        "print(code, *sorted(sys.modules))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, text=True, timeout=60, check=True)
    first, *names = done.stdout.split()
    assert first == "0", done
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("arguments", [("--help",), ("optimize", "--help"), ("check", str(ADD)), ("schema",)])
def test_light_commands_load_no_heavy_module(arguments: tuple[str, ...]) -> None:
    assert not modules_loaded(*arguments) & {"numpy", "egglog", "networkx", "ml_dtypes"}


def test_help_names_every_command_and_the_exit_codes() -> None:
    done = cli("--help")
    assert done.code == 0 and done.err == ""
    for word in ("optimize", "check", "run", "rules", "schema", "--version", "Exit codes"):
        assert word in done.out


def test_version_is_printed() -> None:
    done = cli("--version")
    assert done.code == 0 and done.out.startswith("pypto-eqsat ")


def test_wrong_usage_is_code_2_with_a_diagnostic() -> None:
    for arguments in (
        (),
        ("frobnicate",),
        ("check",),
        ("check", ADD, "--nope"),
        ("optimize", ADD, "--time-limit", "-1"),
        ("optimize", ADD, "--time-limit", "x"),
        ("optimize", ADD, "--node-limit", "0"),
        ("optimize", ADD, "--memory-limit", "1.5"),
        ("optimize", ADD, "--choice-seconds", "0"),
        ("run", ADD, "--seed", "-3"),
        ("check", ADD, "--2"),
    ):
        done = cli(*arguments)
        assert done.code == 2 and "[U001]" in done.err and "Traceback" not in done.err, done


def test_check_counts_functions_and_statements() -> None:
    done = cli("check", ADD)
    assert (done.code, done.out, done.err) == (0, f"{ADD}: 1 function, 4 statements\n", "")


def test_check_2d_tells_lowered_from_unlowered(tmp_path: Path) -> None:
    done = cli("check", "--2d", ADD)
    assert done.code == 1 and "not 2-D: main_incore_0" in done.out and "[V101]" in done.err
    assert f"{ADD}:16:5 " in done.err
    out = tmp_path / "o.json"
    assert cli("optimize", ADD, "-o", out).code == 0
    done = cli("check", "--2d", out)
    assert (done.code, done.out) == (0, f"{out}: 1 function, 2-D\n")


def test_check_2d_reports_a_view_read_after_its_buffer_was_written(tmp_path: Path) -> None:
    x = {"tensor": [32, 16], "dtype": "FP32"}
    body = [
        {
            "let": "a",
            "op": "tile.load",
            "args": ["x", [0, 0], [32, 16], [32, 16]],
            "kwargs": {"target_memory": "Vec"},
        },
        {
            "let": "b",
            "op": "tile.load",
            "args": ["x", [16, 0], [16, 16], [16, 16]],
            "kwargs": {"target_memory": "Vec"},
        },
        {"let": "v", "op": "tile.slice", "args": ["a", [16, 16], [0, 0]]},
        {"let": "w", "op": "tile.assemble", "args": ["a", "b", [0, 0]]},
        {"let": "e", "op": "tile.exp", "args": ["v"]},
        {"let": "o1", "op": "tile.store", "args": ["w", [0, 0], "o"]},
        {"let": "o2", "op": "tile.store", "args": ["e", [0, 0], "o1"]},
        {"return": ["o2"]},
    ]
    params = [{"name": "x", "type": x}, {"name": "o", "type": x, "direction": "Out"}]
    f = {"name": "f", "kind": "InCore", "params": params, "returns": [x], "body": body}
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"pypto_ir": 1, "functions": [f]}))
    assert cli("check", path).code == 0
    done = cli("check", "--2d", path)
    assert done.code == 1 and "[V201]" in done.err


def test_standard_streams_work(tmp_path: Path) -> None:
    done = cli("optimize", "-", stdin=ADD.read_bytes())
    assert done.code == 0
    out = tmp_path / "o.json"
    assert cli("optimize", ADD, "-o", out).code == 0
    assert done.out == out.read_text()
    assert cli("check", "-", stdin=done.out.encode()).out.startswith("<standard input>: 1 function")


def test_stats_are_json(tmp_path: Path) -> None:
    stats = tmp_path / "s.json"
    assert cli("optimize", ADD, "-o", tmp_path / "o.json", "--stats", stats).code == 0
    assert {"cost", "input_cost", "seconds", "validated"} <= json.loads(stats.read_text()).keys()


def test_no_validate_skips_interpretation(tmp_path: Path) -> None:
    stats = tmp_path / "s.json"
    done = cli("optimize", ADD, "-o", tmp_path / "o.json", "--stats", stats, "--no-validate")
    assert done.code == 0 and "validate" not in json.loads(stats.read_text())["seconds"]


def test_an_unknown_target_is_code_2() -> None:
    done = cli("optimize", ADD, "--target", "ascend910")
    assert done.code == 2 and "[U004]" in done.err and "ascend910b" in done.err


def test_a_hit_limit_is_code_3_and_the_program_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pypto_eqsat.driver as driver

    out = tmp_path / "o.json"
    program = read_program(ADD.read_text())
    monkeypatch.setattr(driver, "optimize", lambda p, **options: driver.Result(p, {}, (), limit_hit=True))
    assert main(["optimize", str(ADD), "-o", str(out)]) == 3
    assert read_program(out.read_text()) == program


def test_options_reach_the_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import pypto_eqsat.driver as driver

    seen: dict[str, object] = {}

    def fake(program: object, **options: object) -> driver.Result:
        seen.update({name: value for name, value in options.items() if name != "watch"})
        return driver.Result(program, {})  # type: ignore[arg-type]

    monkeypatch.setattr(driver, "optimize", fake)
    arguments = ["--target", "ascend950", "--time-limit", "2.5", "--no-validate", "--validate-seconds", "7", "--policy", "upstream"]
    arguments += ["--node-limit", "1000", "--memory-limit", "512", "--choice-seconds", "0.5"]
    assert main(["optimize", str(ADD), "-o", str(tmp_path / "o.json"), *arguments]) == 0
    asked = {"target": "ascend950", "validate": False, "validate_seconds": 7.0, "policy": "upstream"}
    limits = {"time_limit": 2.5, "node_limit": 1000, "memory_limit": 512, "choice_seconds": 0.5}
    assert seen == {**asked, **limits, "policy_cost": False, "without_rules": frozenset()}
    assert main(["optimize", str(ADD), "-o", str(tmp_path / "o.json"), "--stats", str(tmp_path / "s.json")]) == 0
    assert (seen["policy"], seen["policy_cost"]) == ("cheapest", True)
    assert main(["optimize", str(ADD), "-o", str(tmp_path / "o.json"), "--stage", "mx", "--mx-stores"]) == 0
    assert (seen["stages"], seen["mx_stores"]) == (("mx",), True)


def test_run_prints_results_and_written_buffers() -> None:
    done = cli("run", ADD, "--seed", "3")
    assert done.code == 0
    first, second, third = done.out.splitlines()
    assert first.startswith("result 0: tensor [2, 3, 4] FP32, checksum ") and first.endswith(", 0 undefined")
    assert second.startswith("out_0: 24 of 24 elements of FP32 written, checksum ")
    assert third.endswith("statements executed")
    assert cli("run", ADD, "--seed", "3").out == done.out
    assert cli("run", ADD, "--seed", "4").out != done.out


def test_run_agrees_with_the_lowered_program(tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    assert cli("optimize", KERNELS / "rmsnorm_4d.json", "-o", out).code == 0
    before = cli("run", KERNELS / "rmsnorm_4d.json").out.splitlines()[:-1]
    after = cli("run", out, "--buffer").out.splitlines()[:-1]
    assert before == after and before


def test_run_l0c_shows_what_a_row_window_of_an_accumulator_becomes() -> None:
    """The windows of `row_windows` are 32 columns wide: half of what a product writes goes astray."""
    given = ("run", KERNELS / "row_windows.json", "--function", "row_windows")
    meant, buffer, blocks = (cli(*given, *mode).out.splitlines() for mode in ((), ("--buffer",), ("--l0c",)))
    assert meant == buffer and " 0 undefined" in meant[0]
    assert meant[0] != blocks[0] and " 0 undefined" not in blocks[0]
    both = cli(*given, "--l0c", "--buffer")
    assert both.code == 2 and "--buffer" in both.err


def test_run_takes_and_saves_arrays(tmp_path: Path) -> None:
    import numpy as np

    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.save(tmp_path / "x.npy", x)
    done = cli("run", ADD, "--input", f"x={tmp_path / 'x.npy'}", "--save", tmp_path / "results")
    assert done.code == 0
    assert (np.load(tmp_path / "results" / "result_0.npy") == 2 * x).all()
    assert (np.load(tmp_path / "results" / "out_0.npy") == 2 * x.ravel()).all()


def test_run_takes_numbers_and_saves_bf16_as_fp32(tmp_path: Path) -> None:
    import numpy as np

    kernel = KERNELS / "softmax_tail_4d.json"
    done = cli("run", kernel, "--input", "ctx=4000", "--input", "nb=16", "--save", tmp_path)
    assert done.code == 0 and "96" in done.out
    assert np.load(tmp_path / "p.npy").dtype == np.float32


@pytest.mark.parametrize(
    ("arguments", "code", "exit"),
    [
        (("--function", "nope"), "U004", 2),
        (("--input", "x"), "U001", 2),
        (("--input", "x=none.npy"), "U002", 2),
        (("--input", "nobody=3"), "R", 1),
        (("--input", "x=3"), "R", 1),
        (("--save", "/proc/nope"), "U003", 2),
    ],
)
def test_run_refuses_what_it_cannot_take(arguments: tuple[str, ...], code: str, exit: int) -> None:
    done = cli("run", ADD, *arguments)
    assert done.code == exit and f"[{code}" in done.err and "Traceback" not in done.err, done


def test_run_refuses_a_file_that_is_no_array(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(b"not an array")
    done = cli("run", ADD, "--input", f"x={tmp_path / 'x.npy'}")
    assert done.code == 2 and "[U005]" in done.err


def test_run_wants_a_function_named_where_there_are_several() -> None:
    done = cli("run", KERNELS / "mx_expert.json")
    assert done.code == 2 and "mx_gemm, main" in done.err
    assert cli("run", KERNELS / "mx_expert.json", "--function", "main").code == 0


def test_rules_gives_every_rule_with_what_makes_it_sound() -> None:
    from egraph_rules.catalogue import every_rule

    listed = json.loads(cli("rules", "--json").out)
    assert [row["name"] for row in listed] == sorted(r.name for r in every_rule()) and listed
    for row in listed:
        assert row.keys() == {"name", "ruleset", "equation", "condition", "counterexample"}
        assert row["equation"] and row["condition"]
    one = cli("rules", listed[0]["name"]).out
    assert listed[0]["name"] in one and listed[0]["equation"].splitlines()[0] in one
    done = cli("rules", "no-such-rule")
    assert done.code == 2 and "[U004]" in done.err


def test_schema_prints_the_published_schema() -> None:
    assert json.loads(cli("schema").out) == schema()


def test_an_internal_fault_is_a_diagnostic(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(path: str) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(commands, "load", broken)
    monkeypatch.delenv("PYPTO_EQSAT_DEBUG", raising=False)
    assert main(["check", str(ADD)]) == 1
    message = capsys.readouterr().err
    assert "[X900]" in message and "pypto_eqsat.commands.load_verified" in message and "KeyError: 'lost'" in message
    assert "PYPTO_EQSAT_DEBUG=1" in message and "Traceback" not in message


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: str) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(commands, "load", broken)
    monkeypatch.setenv("PYPTO_EQSAT_DEBUG", "1")
    with pytest.raises(KeyError):
        main(["check", str(ADD)])


def test_an_interrupt_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(path: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "load", interrupted)
    assert main(["check", str(ADD)]) == 130


def test_a_reader_that_stops_early_is_no_error() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = f"{sys.executable} -m pypto_eqsat schema; echo code $? >&2"
    done = subprocess.run(["bash", "-c", f"({pipe}) | true"], capture_output=True, env=env, text=True, timeout=60, check=True)
    assert done.stderr == "code 0\n"


def test_a_full_standard_output_is_code_2() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for arguments in (["schema"], ["check", str(ADD)], ["optimize", str(ADD)]):
        with open("/dev/full", "w") as full:
            command = [sys.executable, "-m", "pypto_eqsat", *arguments]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=env, text=True, timeout=60, check=False)
        assert done.returncode == 2 and "[U003]" in done.stderr and "Traceback" not in done.stderr, done
        assert "Exception ignored" not in done.stderr


def test_targets_are_listed_and_printed_and_files_checked(tmp_path: Path) -> None:
    listed = cli("targets")
    assert listed.code == 0 and "ascend910b" in listed.out and "ascend950" in listed.out and "131,072 bytes" in listed.out
    one = cli("targets", "ascend950")
    assert one.code == 0 and json.loads(one.out)["name"] == "ascend950"
    own = tmp_path / "own.json"
    own.write_text(one.out.replace('"capacity": 262144', '"capacity": -1'))
    refused = cli("targets", own)
    assert refused.code in (1, 2) and "[U303]" in refused.err and not refused.out
    assert "[U301]" in cli("targets", "ascend9").err
