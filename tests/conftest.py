"""Makes the packages and `helpers` importable for every test, wherever pytest is started from, and spares the collector of cycles what
lives as long as the run: modules and thousands of collected tests.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

_TESTS = Path(__file__).parent
for folder in (str(_TESTS), str(_TESTS.parent)):
    if folder not in sys.path:
        sys.path.insert(0, folder)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
