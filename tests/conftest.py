"""Makes the packages and `helpers` importable for every test, wherever pytest is started from, and spares the collector of cycles what
lives as long as the run: modules and thousands of collected tests. Examples of property tests are the same in every run, unless
`HYPOTHESIS_PROFILE=new` asks for others.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

from hypothesis import settings

_TESTS = Path(__file__).parent
for folder in (str(_TESTS), str(_TESTS.parent)):
    if folder not in sys.path:
        sys.path.insert(0, folder)

settings.register_profile("same", derandomize=True)
settings.register_profile("new")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
