"""`pypto-eqsat explain`: why each function became what it is, or what refused it.

The explanation goes to standard output; where the program is refused its diagnostics go to standard error as well, and the exit code is 1.
Nothing is interpreted: what is explained is the choice.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from pypto_eqsat.cli import DONE, REFUSED, report
from pypto_eqsat.explain_text import text_of, values_of
from pypto_eqsat.explanation import explain
from pypto_eqsat.files import say

if TYPE_CHECKING:
    from pypto_eqsat.commands import Source


def explain_program(source: Source, arguments: argparse.Namespace, options: dict[str, Any]) -> int:
    """Print the explanation of a program. Raises `Refused` where the program itself is wrong: then there is nothing to choose."""
    from pypto_eqsat.commands import verified

    verified(source)
    chosen = {} if arguments.choices is None else {"examined": arguments.choices}
    explanation = explain(source.program, validate=False, **chosen, **options)
    if arguments.format == "json":
        say(json.dumps(values_of(explanation, source.name), indent=1, ensure_ascii=False))
    else:
        say(text_of(explanation, source.name).rstrip("\n"))
    report(source.located(explanation.diagnostics))
    return DONE if explanation.result is not None else REFUSED
