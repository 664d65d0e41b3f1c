"""The engine over egglog; the only module that imports it.

`Engine()` loads the rule files once; `with engine.session() as session:` gives an e-graph for one function (push and pop around it, one
to two milliseconds), into which the encoder puts commands, and from which `saturate` and `freeze` come. egglog's Python package takes a
quarter of a second to import; its compiled bindings, which are all that is used here, load in a tenth of that.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from egraph_rules import provenance
from egraph_rules.resident import exceeds

#: the distribution whose bindings these are
LIBRARY = "egglog"
#: rule files in the order they are loaded; each but the first is a ruleset of its name, the second that of facts
RULE_FILES = ("language", "facts", "flatten", "packed", "pages", "windows", "slices", "products", "accumulators")
#: those of index expressions, in an e-graph of their own
INDEX_FILES = ("index_language", "index_facts", "quotients")
#: sessions of one e-graph: each makes the next 0.1 ms slower, for push and pop copy what egglog keeps of all before; a new one takes 64 ms
SESSIONS = 48
#: growth of the e-graph in one batch above which the next batch is shorter
_FAST = 2.0
#: the rule that puts a function into the e-graph, and its ruleset
_INPUT = "input"
_loading = threading.Lock()
_RULES = Path(__file__).with_name("rules")


def bindings() -> ModuleType:
    """egglog's compiled module, loaded without the package around it."""
    with _loading:
        return _loaded()


@lru_cache(maxsize=1)
def _loaded() -> ModuleType:
    name = "egglog.bindings"
    if name in sys.modules:
        return sys.modules[name]
    package = importlib.util.find_spec("egglog")
    if package is None or not package.submodule_search_locations:
        raise ImportError("egglog is not installed")
    for folder in package.submodule_search_locations:
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = Path(folder) / f"bindings{suffix}"
            if path.exists():
                loader = importlib.machinery.ExtensionFileLoader(name, str(path))
                spec = importlib.util.spec_from_file_location(name, path, loader=loader)
                assert spec is not None
                module = importlib.util.module_from_spec(spec)
                sys.modules[name] = module
                loader.exec_module(module)
                return module
    raise ImportError("egglog has no compiled bindings")


def rule_text(name: str) -> str:
    """The source of a rule file."""
    return (_RULES / f"{name}.egg").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Limits:
    """When saturation stops early: e-nodes, seconds, iterations, MiB of the process. They are looked at between batches of rounds; a
    batch is as long as the e-graph grows slowly."""

    nodes: int = 2_000_000
    seconds: float = 60.0
    iterations: int = 100_000
    memory: int | None = None


@dataclass(slots=True)
class Report:
    """What saturation did. `limit` names the limit that stopped it, None where it reached the end."""

    iterations: int = 0
    rules_fired: dict[str, int] = field(default_factory=dict)
    limit: str | None = None


class UnsoundRule(Exception):
    """Two shapes met in one class: a rule united values that differ. The message is egglog's."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """A saturated e-graph: rows by function name, each (inputs, output), in a stable order. Inputs are ints, tuples of ints (shapes),
    strings, or e-class numbers; `sorts` gives the sorts of every function's inputs and output."""

    rows: dict[str, list[tuple[tuple[Any, ...], Any]]]
    sorts: dict[str, tuple[tuple[str, ...], str]]


def nowhere() -> Any:
    """A place in no file. The bindings keep what a place is called for ever, once for every node that has the place: it has no name."""
    return bindings().RustSpan("", 0, 0)


class Commands:
    """Builds what is put into an e-graph as egglog's own syntax trees, which costs less than text (50 to 90 microseconds a node): actions
    of one rule without conditions, for one by one they take half as long again."""

    def __init__(self) -> None:
        self._b = bindings()
        self._span = nowhere()
        self._made: dict[int | str | tuple[int, ...], Any] = {}
        self.items: list[Any] = []

    def call(self, name: str, *args: Any) -> Any:
        """A term; integers among the arguments become literals, tuples of integers shapes."""
        return self._b.Call(self._span, name, [self._arg(a) for a in args])

    def set(self, function: str, *args: Any) -> None:
        """`(set (function args..) last)`"""
        *keys, value = (self._arg(a) for a in args)
        self.items.append(self._b.Set(self._span, function, keys, value))

    def define(self, number: int, term: Any) -> Any:
        """Value `number` is a term, and has a name from here on, which is given: a rule may not look up `(value number)`."""
        value = self.let(f"v{number}", term)
        self.set("value", number, value)
        return value

    def let(self, name: str, term: Any) -> Any:
        """A name for a term, which is made."""
        self.items.append(self._b.Let(self._span, name, term))
        return self._b.Var(self._span, name)

    def value(self, number: int) -> Any:
        """A value that was defined before."""
        return self._b.Var(self._span, f"v{number}")

    def fact(self, name: str, *args: Any) -> Any:
        """Add a row of a relation, or demand a term; gives the term."""
        term = self.call(name, *args)
        self.items.append(self._b.Expr_(self._span, term))
        return term

    def _arg(self, a: Any) -> Any:
        if not isinstance(a, (int, str, tuple)):
            return a
        if (made := self._made.get(a)) is None:
            made = self._made[a] = self._literal(a)
        return made

    def _literal(self, a: int | str | tuple[int, ...]) -> Any:
        match a:
            case int():
                return self._b.Lit(self._span, self._b.Int(a))
            case str():
                return self._b.Lit(self._span, self._b.String(a))
        return self.let(f"s{len(self._made)}", self._b.Call(self._span, "vec-of" if a else "vec-empty", [self._arg(x) for x in a]))


class Session:
    """One e-graph for one function; the first of its rulesets is that of facts."""

    def __init__(self, egraph: Any, rulesets: tuple[str, ...]) -> None:
        self._egraph, self._rulesets = egraph, rulesets

    def run(self, commands: Commands) -> None:
        """Run encoded commands, once in a session. Raises `UnsoundRule` where facts contradict each other."""
        b, span = bindings(), nowhere()
        rule = b.RuleCommand(b.Rule(span, commands.items, [], _INPUT, _INPUT))
        try:
            self._egraph.run_program(rule, b.RunSchedule(b.Run(span, b.RunConfig(_INPUT))))
        except b.EggSmolError as error:
            raise UnsoundRule(str(error)) from error

    def saturate(self, limits: Limits) -> Report:
        """Run all rulesets to the end, facts first in every round, in bounded batches so that limits are seen."""
        b = bindings()
        span = nowhere()
        runs = [b.Run(span, b.RunConfig(name)) for name in self._rulesets[1:]]
        facts = b.Saturate(span, b.Run(span, b.RunConfig(self._rulesets[0])))
        batch, before = 4, 0
        started, report = time.monotonic(), Report()
        while True:
            schedule = b.Repeat(span, batch, b.Sequence(span, [facts, *runs]))
            try:
                output = self._egraph.run_program(b.RunSchedule(schedule), b.PrintSize(span, None))
            except b.EggSmolError as error:
                raise UnsoundRule(str(error)) from error
            step = output[0].report
            report.iterations += batch
            for rule, count in step.num_matches_per_rule.items():
                report.rules_fired[rule] = report.rules_fired.get(rule, 0) + count
            if not step.updated:
                break
            size = sum(count for _, count in output[1].sizes)
            if size > limits.nodes:
                report.limit = f"{limits.nodes} e-nodes"
            elif time.monotonic() - started > limits.seconds:
                report.limit = f"{limits.seconds:g} s of saturation"
            elif report.iterations >= limits.iterations:
                report.limit = f"{limits.iterations} iterations"
            elif exceeds(limits.memory):
                report.limit = f"{limits.memory} MiB"
            if report.limit:
                break
            fast = before and size > before * _FAST
            batch, before = (max(1, batch // 4) if fast else min(64, batch * 2)), size
        report.rules_fired = {rule: count for rule, count in sorted(report.rules_fired.items()) if count}
        return report

    def freeze(self) -> Frozen:
        """The rows of every function, e-classes numbered by first appearance in that order."""
        frozen = self._egraph.freeze().functions
        reader = _Reader(self._egraph)
        rows: dict[str, list[tuple[tuple[Any, ...], Any]]] = {}
        sorts: dict[str, tuple[tuple[str, ...], str]] = {}
        for name in sorted(frozen):
            function = frozen[name]
            inputs, output = tuple(function.input_sorts), function.output_sort
            sorts[name] = (inputs, output)
            readers, out = [reader.of(s) for s in inputs], reader.of(output)
            rows[name] = [
                (tuple(read(v) for read, v in zip(readers, row.inputs, strict=True)), out(row.output))
                for row in function.rows
                if not row.subsumed
            ]
        return Frozen(rows, sorts)


class _Reader:
    """Turns egglog values into Python values by sort; e-classes become consecutive numbers."""

    def __init__(self, egraph: Any) -> None:
        self._egraph = egraph
        self._classes: dict[tuple[str, Any], int] = {}
        self._cache: dict[tuple[str, Any], Any] = {}

    def of(self, sort: str) -> Any:
        match sort:
            case "i64":
                return lambda v: self._once(sort, v, self._egraph.value_to_i64)
            case "String":
                return lambda v: self._once(sort, v, self._egraph.value_to_string)
            case "Shape":
                return lambda v: self._once(sort, v, self._shape)
            case "Unit" | "bool":
                return lambda v: None
        return lambda v: self._classes.setdefault((sort, v), len(self._classes))

    def _once(self, sort: str, value: Any, read: Any) -> Any:
        key = (sort, value)
        if key not in self._cache:
            self._cache[key] = read(value)
        return self._cache[key]

    def _shape(self, value: Any) -> tuple[int, ...]:
        return tuple(self._egraph.value_to_i64(v) for v in self._egraph.value_to_vec(value))


class Engine:
    """An e-graph with the rules loaded, used for one function after another.

    `without` leaves out rules by name, or whole files by their ruleset's name, for ablation. `texts` takes the place of rule files by
    name, for experiments with other rules. `files` are the rule files.
    """

    def __init__(
        self,
        without: frozenset[str] = frozenset(),
        texts: Mapping[str, str] | None = None,
        files: tuple[str, ...] = RULE_FILES,
    ) -> None:
        self._without, self._texts, self._files = without, dict(texts or {}), files
        self._egraph, self._sessions = self._loaded(), 0

    def _loaded(self) -> Any:
        """A new e-graph with the rules and nothing else."""
        egraph = bindings().EGraph()
        egraph.run_program(bindings().AddRuleset(nowhere(), _INPUT))
        for name in self._files:
            # one command at a time: the text parser of egglog 13 is quadratic in what it is given
            source = self._texts[name] if name in self._texts else rule_text(name)
            commands = [c for text in _commands(source) for c in egraph.parse_program(text, f"{name}.egg")]
            egraph.run_program(*(c for c in commands if name == self._files[1] or _kept(c, name, self._without)))
        return egraph

    @contextmanager
    def session(self) -> Iterator[Session]:
        """An empty e-graph with the rules; what is put into it is gone afterwards."""
        b = bindings()
        if self._sessions == SESSIONS:
            self._egraph, self._sessions = self._loaded(), 0
        self._sessions += 1
        egraph = self._egraph
        egraph.run_program(b.Push(1))
        try:
            yield Session(egraph, self._files[1:])
        finally:
            egraph.run_program(b.Pop(nowhere(), 1))


def _commands(text: str) -> list[str]:
    """The commands of a rule file, comments left out; each starts with a parenthesis in column 0."""
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(";"))
    return [f"({part}" for part in ("\n" + code).split("\n(")[1:]]


def _kept(command: Any, file: str, without: frozenset[str]) -> bool:
    rule = getattr(command, "rule", None)
    if rule is None:
        return True
    return file not in without and rule.name not in without


def _made(without: frozenset[str], files: tuple[str, ...], noting: tuple[str, ...], more: tuple[tuple[str, str], ...]) -> Engine:
    texts = {name: "\n".join((rule_text(name), *(text for file, text in more if file == name))) for name in files}
    return Engine(without, provenance.noting(texts, noting) if noting else texts, files)


class _Engines(threading.local):
    """The engines of a thread: egglog lets nobody into an e-graph but the thread that made it. `more` are rules beside those of the
    files, as (file, text)."""

    def __init__(self) -> None:
        self.more: tuple[tuple[str, str], ...] = ()
        self.of = lru_cache(maxsize=8)(_made)


_engines = _Engines()


def engine(without: frozenset[str] = frozenset(), files: tuple[str, ...] = RULE_FILES, noting: tuple[str, ...] = ()) -> Engine:
    """The engine of this thread for a choice of rules; with `noting` the rules note which of these constructors they make."""
    return _engines.of(without, files, noting, _engines.more)


@contextmanager
def more_rules(file: str, text: str) -> Iterator[None]:
    """Inside, functions are saturated in this thread with more rules at the end of a rule file, as if they stood there: for trying a rule
    before it is added. Raises egglog's error where the text is wrong, when a function is saturated."""
    before = _engines.more
    held = dict(before)
    _engines.more = tuple(sorted({**held, file: f"{held.get(file, '')}\n{text}"}.items()))
    try:
        yield
    finally:
        _engines.more = before
