"""What this engine is, in one digest: results of one engine are results of another exactly where these agree.

Two checkouts with one version number are different engines when a rule, a price or an op differs, so the digest is over the text of
every module, rule file, target and schema of the four packages, and over the versions of the libraries that choose or compute.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from egraph_rules.engine import LIBRARY
from pypto_eqsat.version import installed

PACKAGES = ("pypto_ir", "egraph_rules", "extract", "pypto_eqsat")
#: libraries whose version may change a result: what saturates, what chooses, what interprets
LIBRARIES = (LIBRARY, "ortools", "numpy", "ml_dtypes")
_SUFFIXES = (".py", ".egg", ".json")


@lru_cache(maxsize=1)
def engine_digest() -> str:
    """SHA-256 of the engine as it is installed, in hexadecimal."""
    whole = hashlib.sha256()
    root = Path(__file__).parents[2]
    for package in PACKAGES:
        for file in sorted(f for f in (root / package).rglob("*") if f.suffix in _SUFFIXES):
            data = file.read_bytes()
            whole.update(f"{file.relative_to(root).as_posix()} {len(data)}\n".encode())
            whole.update(data)
    for name in LIBRARIES:
        whole.update(f"{name} {installed(name) or 'none'}\n".encode())
    return whole.hexdigest()
