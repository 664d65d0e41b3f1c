"""Makes the packages and `helpers` importable for every test, wherever pytest is started from."""

from __future__ import annotations

import sys
from pathlib import Path

_TESTS = Path(__file__).parent
for folder in (str(_TESTS), str(_TESTS.parent)):
    if folder not in sys.path:
        sys.path.insert(0, folder)
