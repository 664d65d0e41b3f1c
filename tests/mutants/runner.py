"""Runs tests on mutants: in a copy of the project, each in a process that is forked from one that has loaded everything.

The process that forks is a run of pytest that has collected the tests and stops before the first. A mutant changes the code of one
function or the value of one name in its fork, and costs little but its tests; only where that cannot be done are the changed module and
all that import it loaded again.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import math
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from pathlib import Path
from queue import Empty
from typing import Any, NoReturn

import pytest

from tests.mutants.mutant import Mutant
from tests.mutants.patching import patched
from tests.mutants.subjects import ROOT, Stage

_PACKAGES = ("pypto_ir", "egraph_rules", "extract", "pypto_eqsat")
#: what a run of the tests needs of the project
_PARTS = (*_PACKAGES, "tests", "benchmarks", "docs", "pyproject.toml", "README.md")
#: folder of data -> the module that reads it
_READERS = {"egraph_rules/rules": "egraph_rules.engine", "extract/targets": "extract.target"}
#: most memory of a run; a mutant may try to fill it
_BYTES = 8 << 30
#: the first failure ends a run; no cache, no further processes, nothing shown but failures; `addopts` is for people
_OPTIONS = ("-x", "-s", "-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:terminal", "-m", "not long")


@dataclass(frozen=True, slots=True)
class Task:
    """A mutant, or None for the project as it is, the tests that have to notice, and the CPU seconds that they may take."""

    mutant: Mutant | None
    stages: tuple[Stage, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """`result` is `passed`, `failed`, `timeout` or `broken` (the tests could not be run); `seconds` are those of the CPU."""

    number: int
    result: str
    text: str
    seconds: float


class Tree:
    """A copy of the project in which one file at a time is another."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        for part in _PARTS:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, self.root / part, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy2(source, self.root / part)
        shared = ROOT.parent / "shared"
        if shared.exists():
            (folder / "shared").symlink_to(shared.resolve())
        self.times = count(1_000_000_000)
        self.importers: dict[str, set[str]] = {}

    def load(self) -> None:
        """Load every module of the copy, in place of those of the project."""
        sys.dont_write_bytecode = False  # what is compiled once serves every mutant
        os.chdir(self.root)
        _forget([n for n in sys.modules if n.partition(".")[0] in _PACKAGES])
        sys.path[:] = [str(self.root), *(p for p in sys.path if Path(p or ".").resolve() not in (ROOT, ROOT / "tests"))]
        for package in _PACKAGES:
            for path in sorted((self.root / package).rglob("*.py")):
                module = _module(path.relative_to(self.root))
                if not module.endswith("__main__"):
                    import_module(module)
                    for imported in _imports(path):
                        self.importers.setdefault(imported, set()).add(module)

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """Inside, the file of a mutant is the mutant's."""
        path = self.root / mutant.file
        before = path.read_bytes()
        self._write(path, mutant.text.encode())
        try:
            yield
        finally:
            self._write(path, before)

    def _write(self, path: Path, content: bytes) -> None:
        """Write a file with a time of its own, so that no compiled module is taken for another's."""
        path.write_bytes(content)
        stamp = next(self.times)
        os.utime(path, (stamp, stamp))

    def touched(self, file: str) -> list[str]:
        """The module that a file is, or that reads it, and all that import it, directly or not."""
        path = Path(file)
        found = [_module(path) if path.suffix == ".py" else _READERS[path.parent.as_posix()]]
        for name in found:
            found += sorted(self.importers.get(name, set()) - set(found))
        return found


class _Loop:
    """A plugin of pytest that runs the collected tests on one mutant after another."""

    def __init__(self, tree: Tree, tasks: Any, results: Any) -> None:
        self.tree, self.tasks, self.results = tree, tasks, results

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        parent = os.getppid()
        gc.freeze()  # forks share what is loaded
        while (numbered := self.tasks.get()) is not None and os.getppid() == parent:
            number, task = numbered
            with self.tree.changed(task.mutant) if task.mutant else contextlib.nullcontext():
                self.results.put(self.run(session, number, task))
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            print(report.nodeid, report.longreprtext, sep="\n")

    def run(self, session: pytest.Session, number: int, task: Task) -> Outcome:
        with tempfile.TemporaryFile() as out:
            child = os.fork()
            if not child:
                self.child(session, task, out.fileno())
            status, seconds = _wait(child, 100 * task.seconds)
            out.seek(0)
            text = out.read().decode("utf-8", "replace")
        result = "timeout" if status is None else {0: "passed", 1: "failed"}.get(status, "broken")
        return Outcome(number, result, text, round(seconds, 2))

    def child(self, session: pytest.Session, task: Task, out: int) -> NoReturn:
        """Runs the stages on a mutant in a process of its own, which ends here."""
        code = 99
        try:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
            most = math.ceil(task.seconds)
            resource.setrlimit(resource.RLIMIT_CPU, (most, most))
            os.dup2(out, 1)
            os.dup2(out, 2)
            code = _collected(session, task.stages) if self.in_force(task.mutant) else self.loaded_again(task.mutant, task.stages)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def in_force(self, mutant: Mutant | None) -> bool:
        """Brings a mutant into force among what is loaded; False where that cannot be done."""
        if mutant is None or mutant.file.endswith(".egg"):
            return True  # rules are read by the first test that needs them
        return mutant.file.endswith(".py") and patched(
            mutant, sys.modules[_module(Path(mutant.file))], (*_PACKAGES, "tests", *_test_modules())
        )

    def loaded_again(self, mutant: Mutant | None, stages: tuple[Stage, ...]) -> int:
        assert mutant is not None
        _forget([*self.tree.touched(mutant.file), *_test_modules()])
        for stage in stages:
            code = int(pytest.main([*_OPTIONS, *stage.arguments(self.tree.root)]))
            if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                return code
        return 0


def _test_modules() -> list[str]:
    """Modules of tests and what helps them."""
    return [
        name
        for name, m in sys.modules.items()
        if "/tests/" in (getattr(m, "__file__", None) or "") and "/site-packages/" not in str(m.__file__)
    ]


def _collected(session: pytest.Session, stages: tuple[Stage, ...]) -> int:
    """Runs the collected tests of the stages; 1 with the first failure."""
    items = [item for stage in stages for item in stage.chosen(session.items)]
    items = list(dict.fromkeys(items))
    for item, following in zip(items, [*items, None][1:], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return 1
    return 0


def _module(path: Path) -> str:
    """The name of the module in a file, given from the root of the project."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(path: Path) -> Iterator[str]:
    """The modules that a file imports; of `from a import b` both a and a.b, which may be one."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str() as module, names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)


def _forget(names: list[str]) -> None:
    for name in names:
        sys.modules.pop(name, None)


def _wait(child: int, seconds: float) -> tuple[int | None, float]:
    """The exit code of a child, 1 where it was ended by a signal, None where it used up its time, and the CPU seconds that it took;
    `seconds` are those of the clock, past which it hangs."""
    until = time.monotonic() + seconds
    pause = 0.005
    while time.monotonic() < until:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return None if -code in (signal.SIGXCPU, signal.SIGKILL) else code if code >= 0 else 1, used.ru_utime + used.ru_stime
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    _, _, used = os.wait4(child, 0)
    return None, used.ru_utime + used.ru_stime


def _work(tasks: Any, results: Any, stages: list[Stage]) -> None:
    """A process that takes numbered tasks until there are none."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder))
        tree.load()
        files = dict.fromkeys(file for stage in stages for file in stage.paths(tree.root))
        pytest.main([*_OPTIONS, *files], plugins=[_Loop(tree, tasks, results)])
        os.chdir(ROOT)


def run(tasks: list[Task], jobs: int) -> Iterator[Outcome]:
    """What becomes of each task, as it comes. Processes are new ones: the threads of the engine do not live through a fork."""
    context = multiprocessing.get_context("spawn")
    queue, results = context.Queue(), context.Queue()
    jobs = min(jobs, len(tasks))
    for task in [*enumerate(tasks), *[None] * jobs]:
        queue.put(task)
    stages = list(dict.fromkeys(stage for task in tasks for stage in task.stages))
    workers = [context.Process(target=_work, args=(queue, results, stages), daemon=True) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    left = len(tasks)
    while left:
        try:
            yield results.get(timeout=1.0)
            left -= 1
        except Empty:
            if not any(worker.is_alive() for worker in workers):
                raise RuntimeError("the processes that run tests have ended") from None
    for worker in workers:
        worker.join()
