"""What a user asks of `optimize`, as one value: the same for a single program, a folder and a cluster.

    options = Options(target="ascend950", without_rules=("pages",))
    optimize(program, **options.keywords())

`described` is what a result depends on, as plain JSON values in a fixed order: part of the name under which a result is kept.
"""

from __future__ import annotations

import argparse
import difflib
from dataclasses import asdict, dataclass
from typing import Any

from pypto_eqsat.files import UsageFault

#: seconds that a command compares input and output by runs; the library's own default is the shortest that runs everything once
VALIDATE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `pypto_eqsat.driver.optimize` by the names that they have there; None leaves the driver's own default. `stages` are
    the passes to run, `without_rules` names of rules or rule files, times are in seconds, memory is in MiB."""

    target: str | None = None
    policy: str = "cheapest"
    stages: tuple[str, ...] | None = None
    mx_stores: bool = False
    without_rules: tuple[str, ...] = ()
    time_limit: float | None = None
    node_limit: int | None = None
    memory_limit: int | None = None
    choice_seconds: float | None = None
    validate: bool = True
    validate_seconds: float = VALIDATE_SECONDS

    def keywords(self) -> dict[str, Any]:
        """The keyword arguments for the driver. Raises `UnknownRule` where no rule has a name of `without_rules`."""
        from egraph_rules.catalogue import parts_of

        given: dict[str, Any] = {
            "target": self.target,
            "policy": self.policy,
            "time_limit": self.time_limit,
            "node_limit": self.node_limit,
            "memory_limit": self.memory_limit,
            "validate": self.validate,
            "validate_seconds": self.validate_seconds,
            "without_rules": parts_of(self.without_rules),
        }
        optional = {"choice_seconds": self.choice_seconds, "stages": self.stages, "mx_stores": self.mx_stores or None}
        return {**given, **{name: value for name, value in optional.items() if value is not None}}

    def described(self) -> dict[str, Any]:
        """What a result depends on, beside the program and the engine: every option, and the text of a target file of the user's own."""
        result = asdict(self)
        if self.target is not None and self.target.endswith(".json"):
            from extract.target import source_of

            result["target"] = source_of(self.target)
        return result


def options_of(arguments: argparse.Namespace) -> Options:
    """The options that a command line gives. Raises `UsageFault` (U004) for a target or a rule that nobody knows, `Refused` for a target
    file with faults."""
    return Options(
        target=checked_target(arguments.target),
        policy=arguments.policy,
        stages=None if arguments.stage is None else (arguments.stage,),
        mx_stores=arguments.mx_stores,
        without_rules=checked_rules(arguments.without_rule),
        time_limit=arguments.time_limit,
        node_limit=arguments.node_limit,
        memory_limit=arguments.memory_limit,
        choice_seconds=arguments.choice_seconds,
        validate=not arguments.no_validate,
        validate_seconds=VALIDATE_SECONDS if arguments.validate_seconds is None else arguments.validate_seconds,
    )


def checked_rules(names: list[str]) -> tuple[str, ...]:
    """Names of rules or rule files to leave out, each once. Raises `UsageFault` (U004) for one that nobody knows."""
    from egraph_rules.catalogue import UnknownRule, parts_of

    try:
        parts_of(tuple(names))
    except UnknownRule as fault:
        raise unknown_name("rule or rule file", fault.name, fault.known) from None
    return tuple(sorted(set(names)))


def checked_target(name: str | None) -> str | None:
    """A target that `load_target` takes: a built-in name, or the path of a target file that is read once here, so that its faults are
    said before any work."""
    from pypto_ir.json_reader import TARGETS

    if name is None or name in TARGETS:
        return name
    if not name.endswith(".json"):
        raise unknown_name("target", name, TARGETS)
    from extract.target import load_target

    load_target(name)
    return name


def unknown_name(what: str, name: str, known: Any) -> UsageFault:
    """The fault of a name on the command line that is none of the known ones, with the closest of these."""
    names = list(known)
    close = difflib.get_close_matches(name[:60], names, 1)
    listed = ", ".join(names[:20]) + (", .." if len(names) > 20 else "")
    help = f"did you mean {close[0]}?" if close else f"known: {listed}"
    return UsageFault("U004", f"the {what} {name!r} is not known", None, help)
