"""The equalities that `docs/regions.md` lists as sound, and the rules that hold them; each rule has its own tests in `test_rules`."""

from __future__ import annotations

import re
from pathlib import Path

from egraph_rules.catalogue import rules

PAGE = (Path(__file__).parents[2] / "docs" / "regions.md").read_text(encoding="utf-8")


def test_each_sound_equality_is_held_by_rules_that_there_are() -> None:
    rows = dict(re.findall(r"^\| (E\d+) .* \| (.*) \|$", PAGE, re.M))
    assert list(rows) == [f"E{n}" for n in range(1, 11)]
    known = {r.name for r in rules()}
    for equality, cell in rows.items():
        named = re.findall(r"`([a-z.-]+)`", cell)
        assert named and set(named) <= known, equality


def test_rules_that_the_page_names_are_rules_or_families_of_them() -> None:
    known = {r.name for r in rules()}
    named = re.findall(r"\(((?:`[a-z.*-]+`(?:, )?)+)\)", PAGE)
    names = [name for group in named for name in re.findall(r"`([a-z.*-]+)`", group) if "." in name]
    assert len(names) > 15
    for name in names:
        assert name in known or (name.endswith(".*") and any(k.startswith(name[:-1]) for k in known)), name
