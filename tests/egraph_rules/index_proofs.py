"""What has to be proved of index facts, and by which test: everything that turns facts or expressions into facts has a name here.

    @proves(index_transfer.add, index_transfer.subtract)
    def test_sums(..): ...

The test must run what it proves. `required()` finds what there is in the modules of facts and in the rule files, so that a transfer
function or a rule without a proof fails `test_index_proofs.py`.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, TypeVar

from egraph_rules import (
    index_bits,
    index_bounds,
    index_conditions,
    index_division,
    index_domain,
    index_enumerated,
    index_nodes,
    index_reach,
    index_relations,
    index_system,
    index_transfer,
    index_trips,
    index_values,
    index_walk,
    index_wrapping,
)
from egraph_rules.engine import INDEX_FILES, rule_text

#: modules all of whose public functions need a proof
WHOLE = (index_bits, index_division, index_enumerated, index_transfer, index_trips, index_domain)
#: modules of which some functions build or search, and those that say something of numbers
SOME: dict[Any, tuple[str, ...]] = {
    index_bounds: ("Sums.fact", "Sums.congruence", "Sums.interval"),
    index_relations: ("Relation.disjoint",),
    index_system: ("System._by_meaning",),
    index_values: ("combine", "scale", "balanced", "Values._form", "Values._shortened"),
    index_walk: ("Walk.loop",),
    index_wrapping: ("_reach",),
}
#: those that only read a fact or are its parts
READING = re.compile(r"index_domain\.(Fact\.|never|top|outside|exactly|wrapped|bounds)|\.(nodes|inputs|_\w+)$")

#: name of what is proved -> the tests that do
PROVED: dict[str, list[str]] = {}
_Test = TypeVar("_Test", bound=Callable[..., None])


def named(function: Any) -> str:
    """`index_trips.Bounds.values`, also for a property."""
    found = _plain(function)
    return f"{found.__module__.rpartition('.')[2]}.{found.__qualname__}"


def _plain(function: Any) -> Any:
    return function.fget if isinstance(function, property) else function


def _functions(module: Any) -> Iterator[str]:
    for thing in list(vars(module).values()):
        members = list(vars(thing).values()) if inspect.isclass(thing) and thing.__module__ == module.__name__ else [thing]
        for member in members:
            if isinstance(member, FunctionType | property) and _plain(member).__module__ == module.__name__:
                yield named(member)


def required() -> set[str]:
    """Everything that needs a proof: transfer functions, what conditions say, the rules of nodes, the identities of forms, and the rules of
    the e-graph."""
    found = {name for module in WHOLE for name in _functions(module) if not READING.search(name)}
    found |= {f"{module.__name__.rpartition('.')[2]}.{name}" for module, names in SOME.items() for name in names}
    found |= {named(narrow) for narrow in index_conditions._NARROWINGS.values()} | {named(index_conditions._congruent)}
    for module in (index_nodes, index_reach):
        found |= {name for name in _functions(module) if name.endswith(".evaluate")} - {"index_nodes.Rule.evaluate"}
    return found | {f"egg {rule}" for rule in egg_rules()}


def egg_rules() -> list[str]:
    """The rules of index expressions by name, parts of one rule under its name."""
    return [name for file in INDEX_FILES[1:] for name in re.findall(r':name "([^"]+)"', rule_text(file))]


def proves(*what: Any, **by_op: Any) -> Callable[[_Test], _Test]:
    """Mark a test as the proof of functions, each of which every run of it must call, and of rules of the e-graph by name
    (`"egg quotient.one"`). `by_op` are those that it calls where its argument `op` has that value."""
    for w in (*what, *by_op.values()):
        assert callable(w) or isinstance(w, str | property), w

    def mark(test: _Test) -> _Test:
        for w in (*what, *by_op.values()):
            PROVED.setdefault(w if isinstance(w, str) else named(w), []).append(test.__name__)

        @functools.wraps(test)
        def watched(*args: Any, **kwargs: Any) -> None:
            wanted = [w for w in what if not isinstance(w, str)] + [f for op, f in by_op.items() if kwargs.get("op") == op]
            missing = {_plain(w).__code__: named(w) for w in wanted}

            def watch(frame: Any, event: str, _: Any) -> None:
                if event == "call":
                    missing.pop(frame.f_code, None)

            before = sys.getprofile()
            sys.setprofile(watch)
            try:
                test(*args, **kwargs)
            finally:
                sys.setprofile(before)
            assert not missing, f"{test.__name__} does not call {', '.join(missing.values())}"

        return watched  # type: ignore[return-value]

    return mark
