"""pypto-eqsat: lowers N-D tile programs to the cheapest legal 2-D program, by equality saturation.

    from pypto_eqsat import optimize
    result = optimize(program, target="ascend950", time_limit=10.0)
    result.program, result.stats

The names are imported when they are first used: `import pypto_eqsat` alone loads neither egglog nor NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pypto_eqsat.driver import Result, optimize
    from pypto_eqsat.properties import FLATTEN, PassProperties

__all__ = ["FLATTEN", "PassProperties", "Result", "optimize"]

_MODULES = {
    "FLATTEN": "pypto_eqsat.properties",
    "PassProperties": "pypto_eqsat.properties",
    "Result": "pypto_eqsat.driver",
    "optimize": "pypto_eqsat.driver",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
