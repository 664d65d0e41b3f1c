"""Numbers as people read them: 64301.533 cycles are `64,301.53`, 188416 bytes `188,416`."""

from __future__ import annotations


def cycles(value: float) -> str:
    """Cycles of the cost model with two decimals, a trailing `.00` left out."""
    text = f"{value:,.2f}"
    return text.removesuffix(".00")


def change(before: float, after: float) -> str:
    """What `after` is more or less than `before`: `+4.50 cycles, +34 %`."""
    more = after - before
    if abs(more) <= 1e-9 * max(1.0, abs(before)):
        return "the same"
    share = f", {_percent(more / before)}" if before else ""
    return f"{'+' if more > 0 else '-'}{cycles(abs(more))} cycles{share}"


def saving(cost: float, other: float) -> str:
    """What a program saves beside another one: `saves 4.50 cycles (34 %)`."""
    less = other - cost
    if abs(less) <= 1e-9 * max(1.0, abs(cost)):
        return "costs the same"
    share = f" ({_percent(less / cost).lstrip('+-')})" if cost else ""
    return f"{'saves' if less > 0 else 'costs'} {cycles(abs(less))} cycles{share}" + ("" if less > 0 else " more")


def _percent(share: float) -> str:
    size = abs(share) * 100
    digits = 0 if size >= 10 else 1 if size >= 1 else 2
    if size < 0.005:
        return "less than 0.01 %"
    return f"{'+' if share > 0 else '-'}{size:.{digits}f} %"


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 choice`, `3 choices`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(names: list[str], most: int = 4) -> str:
    """Names in a row, the first few by name: `a, b, c, d and 3 more`."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"
