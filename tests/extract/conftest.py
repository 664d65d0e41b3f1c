"""Makes the builders of `tests/egraph_rules` importable."""

from __future__ import annotations

import sys
from pathlib import Path

_BUILDERS = str(Path(__file__).parents[1] / "egraph_rules")
if _BUILDERS not in sys.path:
    sys.path.append(_BUILDERS)
