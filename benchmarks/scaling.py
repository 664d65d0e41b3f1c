"""How time and memory grow with the size of a function, and how much of large functions is proved.

    python -m benchmarks.scaling 1000 5     one straight-line kernel in this process, 5 s for its proof: its figures as JSON

`straight_line(1000)` has 1,000 N-D ops that hang together: each group of ten loads, multiplies with what came before, reduces rows, adds a
value that is broadcast over pages, and stores. `loops(28, 400)` has 400 ops in 28 loops one after the other, the size of the largest
single function of real programs. Straight-line kernels are measured in processes of their own, in seconds of the processor and in the most
memory that the process ever held; what an op takes is what 9,000 more of them take over 9,000.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks.machine import memory
from benchmarks.performance import ROOT, Row

#: sizes of straight-line kernels, and how much more one op of a larger one may take than one of the size before
SIZES, LINEAR = (100, 1_000, 10_000), 1.25
#: seconds for the choice of one function, hardly any, and seconds for each kernel
CHOICE_SECONDS, NO_SECONDS, KERNEL_SECONDS = 5.0, 1e-6, 0.5
#: how far the last look at the clock may lie behind the limit
OVER = 1.25
#: part of the cost that may be left without proof in 400 ops in 28 loops
GAP = 0.01
#: ops of a group of a straight-line kernel
GROUP = 10
_VEC = {"target_memory": "Vec"}


def _let(name: str, op: str, *args: Any, **kwargs: str) -> dict[str, Any]:
    return {"let": name, "op": f"tile.{op}", "args": list(args), **({"kwargs": kwargs} if kwargs else {})}


def _program(body: list[dict[str, Any]], inputs: dict[str, list[int]], out: list[int]) -> str:
    params: list[dict[str, Any]] = [{"name": n, "type": {"tensor": shape, "dtype": "FP32"}} for n, shape in inputs.items()]
    result = {"tensor": out, "dtype": "FP32"}
    params.append({"name": "out", "type": result, "direction": "Out"})
    kernel = {"name": "kernel", "kind": "InCore", "params": params, "returns": [result], "body": body}
    return json.dumps({"pypto_ir": 1, "name": "Scaling", "functions": [kernel]})


def straight_line(ops: int) -> str:
    """A program file with one kernel of so many ops (a multiple of ten) in one block."""
    shape, page, at = [4, 16, 64], [1, 16, 64], [0, 0, 0]
    body: list[dict[str, Any]] = [_let("soft", "load", "other", at, shape, shape, **_VEC)]
    last, stored = "soft", "out"
    for g in range(ops // GROUP):
        body += [
            _let(f"x{g}", "load", "source", at, shape, shape, **_VEC),
            _let(f"y{g}", "adds", last, 2.0),
            _let(f"xy{g}", "mul", f"x{g}", f"y{g}"),
            _let(f"tmp{g}", "create", shape, dtype="FP32", **_VEC),
            _let(f"top{g}", "row_max", f"xy{g}", f"tmp{g}"),
            _let(f"low{g}", "row_expand_sub", f"xy{g}", f"top{g}"),
            _let(f"e{g}", "exp", f"low{g}"),
            _let(f"w{g}", "load", "small", at, page, page, **_VEC),
            _let(f"soft{g}", "add", f"e{g}", f"w{g}"),
            _let(f"out{g}", "store", f"soft{g}", at, stored),
        ]
        last, stored = f"soft{g}", f"out{g}"
    return _program([*body, {"return": [stored]}], {"source": shape, "other": shape, "small": page}, shape)


def loops(count: int, ops: int) -> str:
    """A program file with one kernel of so many ops in so many loops one after the other, with a broadcast over pages in each."""
    shape, page, stored = [4, 16, 64], [1, 16, 64], "out"
    body: list[dict[str, Any]] = []
    for n in range(count):
        size = ops // count + (n < ops % count)
        at, last = [f"i{n} * 4", 0, 0], f"sum{n}"
        inner = [
            _let(f"x{n}", "load", "source", at, shape, shape, **_VEC),
            _let(f"w{n}", "load", "small", [0, 0, 0], page, page, **_VEC),
            _let(f"sum{n}", "add", f"x{n}", f"w{n}"),
        ]
        for k in range(size - 4):
            inner.append(_let(f"t{n}_{k}", ("exp", "adds", "muls")[k % 3], last, *([] if k % 3 == 0 else [2.0])))
            last = f"t{n}_{k}"
        inner += [_let(f"o{n}", "store", last, at, f"c{n}"), {"yield": [f"o{n}"]}]
        carry = [{"name": f"c{n}", "init": stored}]
        body.append({"for": f"i{n}", "range": [0, 8, 1], "carry": carry, "body": inner, "results": [f"r{n}"]})
        stored = f"r{n}"
    return _program([*body, {"return": [stored]}], {"source": [32, 16, 64], "small": page}, [32, 16, 64])


def figures(ops: int, seconds: float) -> dict[str, float]:
    """What one straight-line kernel takes in this process, its program read and written too, with so many seconds for the proof."""
    from pypto_eqsat.driver import optimize
    from pypto_ir.json_reader import read_program
    from pypto_ir.json_writer import write_program

    begun = process_time()
    result = optimize(read_program(straight_line(ops), "straight.json"), choice_seconds=seconds)
    write_program(result.program)
    return {"seconds": process_time() - begun, "kib": peak(), "prove": result.stats["seconds"]["prove"], "gap": result.stats["gap"]}


def peak() -> int:
    """The most memory that this process held since it started, in KiB. What `getrusage` tells counts the process that started it, too."""
    most = memory("VmHWM")
    if most is not None:
        return most
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measured(ops: int, seconds: float) -> dict[str, float]:
    """`figures` of a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scaling", str(ops), str(seconds)]
    found: dict[str, float] = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    return found


def growth() -> Iterator[Row]:
    """Straight-line kernels: what an op takes beside one of a smaller kernel, and the choice within its time."""
    found = {size: measured(size, NO_SECONDS) for size in SIZES}
    small, middle, large = SIZES
    for key, unit, scale, what in (("seconds", "ms", 1e3, "time"), ("kib", "KiB", 1.0, "memory")):
        a = (found[middle][key] - found[small][key]) / (middle - small) * scale
        b = (found[large][key] - found[middle][key]) / (large - middle) * scale
        title = f"straight line, {what} of an op without the proof: {middle:,} to {large:,} ops over {small:,} to {middle:,}"
        yield Row(title, f"{b:.2f} {unit}", f"{a:.2f} {unit}", b / a, LINEAR)
    proved = measured(large, CHOICE_SECONDS)
    title = f"straight line of {large:,} ops: seconds of the proof; {proved['gap']:.0%} of the cost not proved"
    yield Row(title, f"{proved['prove']:.1f} s", f"limit {CHOICE_SECONDS:g} s", proved["prove"] / CHOICE_SECONDS, OVER)


def proofs(kernels: Path) -> Iterator[Row]:
    """The kernels, and a function of the size of the largest of real programs."""
    from pypto_eqsat.driver import optimize
    from pypto_ir.diagnostics import Refused
    from pypto_ir.json_reader import read_program

    slowest, proved, count = 0.0, 0, 0
    for file in sorted(kernels.glob("*.json")):
        program = read_program(file.read_text(encoding="utf-8"), file.name)
        begun = process_time()
        try:
            result = optimize(program, validate=False)
        except Refused:
            continue
        slowest, count = max(slowest, process_time() - begun), count + 1
        proved += result.stats["proof"] == "optimal"
    title = f"`optimize(validate=False)`, slowest of {count} kernels; {proved} proved optimal"
    yield Row(title, f"{slowest * 1e3:.0f} ms", f"{KERNEL_SECONDS * 1e3:.0f} ms", slowest / KERNEL_SECONDS, 1.0)
    result = optimize(read_program(loops(28, 400), "loops.json"), validate=False, choice_seconds=CHOICE_SECONDS)
    spent, gap = result.stats["seconds"]["prove"], result.stats["gap"]
    title = f"400 ops in 28 loops: seconds of the proof; {result.stats['proof']}"
    yield Row(title, f"{spent:.1f} s", f"limit {CHOICE_SECONDS:g} s", spent / CHOICE_SECONDS, OVER)
    yield Row("400 ops in 28 loops: part of the cost that is not proved", f"{gap:.2%}", f"{GAP:.0%}", gap / GAP, 1.0)


if __name__ == "__main__":
    print(json.dumps(figures(int(sys.argv[1]), float(sys.argv[2]))))
