"""Pages of which a part is generated: the text between two markers is replaced, the rest is kept.

<!-- begin table -->
| .. |
<!-- end table -->
"""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def generated(page: str, part: str) -> str:
    """What stands between the markers of a part. Raises `ValueError` where the page has no such part."""
    _, inside, _ = _split(page, part)
    return inside


def replaced(page: str, part: str, text: str) -> str:
    """The page with a new text for a part. Raises `ValueError` where the page has no such part."""
    before, _, after = _split(page, part)
    return f"{before}\n{text.strip()}\n{after}"


def rewrite(name: str, part: str, text: str) -> None:
    """Write a new text for a part of the page `name` of `docs/`. Raises `ValueError` where the page has no such part."""
    page = DOCS / name
    page.write_text(replaced(page.read_text(encoding="utf-8"), part, text), encoding="utf-8")


def _split(page: str, part: str) -> tuple[str, str, str]:
    begin, end = f"<!-- begin {part} -->", f"<!-- end {part} -->"
    before, found, rest = page.partition(begin)
    inside, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no part between {begin} and {end}")
    return before + begin, inside.strip(), end + after
