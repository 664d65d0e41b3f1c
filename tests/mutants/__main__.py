"""`python -m tests.mutants`: every mutant against the tests, a table, and the survivors. Exit code 1 where one survived that is not known
to be equivalent.

Verdicts are kept in `build/mutants.jsonl`, so that a run that was stopped goes on: a mutant that was killed is not tried again while its
file stays as it is, one that survived not while the tests stay as they are.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import chain
from pathlib import Path

from tests.mutants.mutant import Mutant
from tests.mutants.runner import Task, run
from tests.mutants.subjects import ROOT, Stage, Subject, everything

EQUIVALENT, SAMPLE = (Path(__file__).with_name(f"{name}.json") for name in ("equivalent", "sample"))
KILLED = ("failed", "timeout", "broken")
#: most CPU seconds of a stage on the project as it is
UNCHANGED = 1200.0
#: a mutant whose tests take this many times the CPU time of the project as it is, and some seconds more, hangs
SLOWER = 4.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant: `result` is failed, timeout, broken (all killed) or passed; `tests` is the digest of the tests then."""

    key: str
    name: str
    result: str
    seconds: float
    tests: str

    @property
    def killed(self) -> bool:
        return self.result in KILLED


def equivalents() -> dict[str, str]:
    """Mutants that change nothing anyone could see: name -> why."""
    found: dict[str, str] = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return found


def tests_digest() -> str:
    tests = ROOT / "tests"
    files = sorted(f for f in tests.rglob("*.py") if f.relative_to(tests).parts[0] != "mutants")
    return sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:16]


def known(path: Path, digest: str) -> dict[str, Verdict]:
    """Verdicts of earlier runs that still hold, by the mutant's key."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = (Verdict(**json.loads(line)) for line in lines)
    return {v.key: v for v in found if v.killed or v.tests == digest}


def sample() -> list[tuple[Subject, Mutant]]:
    """The mutants of the ordinary run: quick ones of every kind, named in a file, so that the run does not change with each new rule."""
    names = set(json.loads(SAMPLE.read_text(encoding="utf-8")))
    return [m for m in everything() if m[1].name in names]


def unchanged(stages: list[Stage], jobs: int) -> tuple[dict[Stage, float], list[str]]:
    """The CPU seconds of stages on the project as it is, and the output of those that fail there: verdicts would mean nothing."""
    found = {o.number: o for o in run([Task(None, (stage,), UNCHANGED) for stage in stages], jobs)}
    wrong = [f"{' '.join(stages[i].files)}: {o.result}\n{o.text[-2000:]}" for i, o in found.items() if o.result != "passed"]
    return {stages[i]: o.seconds for i, o in found.items()}, wrong


class WrongBefore(Exception):
    """Tests fail on the project as it is."""


@dataclass
class Trial:
    """Mutants against tests: verdicts are kept in a file, and those that still hold are taken from it."""

    results: Path
    jobs: int
    seconds: float
    check: bool
    digest: str = field(default_factory=tests_digest)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    _usual: dict[Stage, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.verdicts = known(self.results, self.digest)

    def of(self, chosen: list[tuple[Subject, Mutant]]) -> None:
        """A verdict for every mutant. Raises `WrongBefore`."""
        todo = [(subject, mutant) for subject, mutant in chosen if mutant.key not in self.verdicts]
        stages = [subject.stages(mutant) for subject, mutant in todo]
        new = [stage for stage in dict.fromkeys(chain.from_iterable(stages)) if stage not in self._usual] if self.check else []
        usual, wrong = unchanged(new, self.jobs)
        if wrong:
            raise WrongBefore("\n".join(wrong))
        self._usual.update(usual)
        tasks = [
            Task(mutant, wanted, self.seconds + SLOWER * sum(self._usual.get(stage, 0.0) for stage in wanted))
            for (_, mutant), wanted in zip(todo, stages, strict=True)
        ]
        self.results.parent.mkdir(parents=True, exist_ok=True)
        with self.results.open("a", encoding="utf-8") as log:
            for outcome in run(tasks, self.jobs):
                mutant = todo[outcome.number][1]
                verdict = self.verdicts[mutant.key] = Verdict(mutant.key, mutant.name, outcome.result, outcome.seconds, self.digest)
                log.write(json.dumps(asdict(verdict)) + "\n")
                log.flush()

    def each(self, chosen: list[tuple[Subject, Mutant]]) -> None:
        """Verdicts until a mutant of every rule, function and number is killed, as far as there is one; rules that do nothing are tried
        first. Raises `WrongBefore`."""
        while True:
            bare = set(unnoticed(chosen, self.verdicts))
            waiting = [(s, m) for s, m in chosen if (m.file, m.where) in bare and m.key not in self.verdicts]
            nexts = {(m.file, m.where): (s, m) for s, m in waiting[::-1] if not m.idle}
            nexts |= {(m.file, m.where): (s, m) for s, m in waiting[::-1] if m.idle}
            if not nexts:
                return
            self.of(list(nexts.values()))


def parts(chosen: list[tuple[Subject, Mutant]]) -> list[tuple[str, str]]:
    """File and name of what has mutants: rules, functions, numbers of targets."""
    return list(dict.fromkeys((m.file, m.where) for _, m in chosen))


def unnoticed(chosen: list[tuple[Subject, Mutant]], verdicts: dict[str, Verdict]) -> list[tuple[str, str]]:
    """The parts of which no mutant was killed, but those of which every mutant is known to change nothing."""
    noticed = {(m.file, m.where) for _, m in chosen if m.key in verdicts and verdicts[m.key].killed}
    same = equivalents()
    could = {(m.file, m.where) for _, m in chosen if m.name not in same}
    return [part for part in parts(chosen) if part in could and part not in noticed]


def table(mutants: list[tuple[Subject, Mutant]], verdicts: dict[str, Verdict]) -> str:
    """Counts by file."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    same = equivalents()
    for subject, mutant in mutants:
        row = counts.setdefault((subject.name, mutant.file), Counter())
        row["mutants"] += 1
        verdict = verdicts.get(mutant.key)
        kind = "left" if verdict is None else "killed" if verdict.killed else "equivalent" if mutant.name in same else "survived"
        row[kind] += 1
    total: Counter[str] = sum(counts.values(), Counter())
    kinds = ("mutants", "killed", "equivalent", "survived", *(("left",) if total["left"] else ()))
    lines = [f"{'':8} {'':36}" + "".join(f"{kind:>11}" for kind in kinds)]
    for (name, file), row in [*counts.items(), (("", "all"), total)]:
        lines.append(f"{name:8} {file:36}" + "".join(f"{row[kind]:11}" for kind in kinds))
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description="Mutants of rules, checks and prices, and whether tests notice."
    )
    parser.add_argument(
        "--only", action="append", default=[], help="mutants whose name or subject holds this text; may be given more than once"
    )
    parser.add_argument("--sample", action="store_true", help="only those of the ordinary run of the tests")
    parser.add_argument("--each", action="store_true", help="only until one mutant of every rule, function and number is killed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0, help="CPU time of a mutant beyond 4 times the usual")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "mutants.jsonl", help="where verdicts are kept")
    parser.add_argument("--fresh", action="store_true", help="forget earlier verdicts")
    parser.add_argument("--list", action="store_true", help="print the names, run nothing")
    parser.add_argument("--unchecked", action="store_true", help="do not run the tests on the unchanged project first")
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # ends the processes that run tests, too
    chosen = [m for m in everything() if not options.only or any(text in f"{m[0].name} {m[1].name}" for text in options.only)]
    if options.sample:
        chosen = sample()
    if options.each:
        same = equivalents()
        chosen = [m for m in chosen if m[1].name not in same]
    if options.list:
        print("\n".join(mutant.name for _, mutant in chosen))
        return 0
    if options.fresh:
        options.results.unlink(missing_ok=True)
    trial = Trial(options.results, options.jobs, options.seconds, not options.unchecked)
    try:
        if options.each:
            trial.each(chosen)
        else:
            trial.of(chosen)
    except WrongBefore as wrong:
        print("tests fail on the unchanged project:", wrong, sep="\n", file=sys.stderr)
        return 2
    print(table(chosen, trial.verdicts))
    if options.each:
        bare = unnoticed(chosen, trial.verdicts)
        print(*(f"no mutant is noticed: {file} {where}" for file, where in bare), f"{len(parts(chosen))} parts, {len(bare)} bare", sep="\n")
        return 1 if bare else 0
    same = equivalents()
    survivors = [m.name for _, m in chosen if not trial.verdicts[m.key].killed and m.name not in same]
    for name in survivors:
        print(f"survived: {name}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
