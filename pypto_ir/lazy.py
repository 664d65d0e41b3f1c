"""NumPy, imported when it is first used: commands that only read and check text do not pay for it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class LazyModule:
    """Stands for a module and imports it at the first attribute that is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: ModuleType | None = None

    def __getattr__(self, attribute: str) -> Any:
        if self._module is None:
            self._module = import_module(self._name)
        value = self.__dict__[attribute] = getattr(self._module, attribute)
        return value


np: Any = LazyModule("numpy")
ml_dtypes: Any = LazyModule("ml_dtypes")
