"""How loops are followed: trip counts, when carries repeat, and how much work a nest of loops is.

`range(0, 128, 64)` has 2 trips; a loop whose bounds are not constant may have none. Two carries that swap
buffers a and b in every trip have the patterns (a, b), (b, a), (a, b), ..: the third repeats.
"""

from __future__ import annotations

from pypto_ir.expr import Expr, children, const_int
from pypto_ir.stmt import Block, For, While, blocks
from pypto_ir.verify.aliases import Value

#: largest offset expression that is kept as it is
NODES = 48


def small(e: Expr) -> bool:
    """True for an expression of at most `NODES` nodes."""
    stack, nodes = [e], 0
    while stack and nodes <= NODES:
        nodes += 1
        stack.extend(children(stack.pop()))
    return nodes <= NODES


def trip_count(s: For | While) -> int | None:
    """The number of trips of a loop with constant bounds, else None."""
    if isinstance(s, While):
        return None
    start, stop, step = const_int(s.start), const_int(s.stop), const_int(s.step)
    return len(range(start, stop, step)) if start is not None and stop is not None and step else None


def pattern(carried: list[Value], outside: int) -> object:
    """What carries are to the loop: which buffers from outside, which from earlier trips, and which of them
    are one.
    """
    numbers: dict[int, int] = {}
    return tuple(
        tuple(
            (
                r.buffer if r.buffer < outside else -1 - numbers.setdefault(r.buffer, len(numbers)),
                r.box,
                bool(r.missing),
            )
            for r in value
        )
        for value in carried
    )


def exact_work(block: Block) -> int:
    """An upper bound of the statements visited when every loop is followed for two trips."""
    return sum(1 + (2 if isinstance(s, For | While) else 1) * sum(exact_work(inner) for inner in blocks(s)) for s in block)
