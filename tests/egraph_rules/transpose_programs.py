"""For each rule of transposes a generator of programs in which it fires, and the programs on which it must not."""

from __future__ import annotations

from collections.abc import Callable

from building import Build, Shape
from drawing import FLOATS, Draw, Generator

from pypto_ir.expr import Var
from pypto_ir.stmt import Function

Make = Callable[[], Function]


def swapped(b: Build, x: Var, axes: Shape, name: str = "y") -> Var:
    return b.let(name, "tile.transpose", x, *axes)


def _between(d: Draw, shape: Shape, axes: Shape) -> Function:
    """A transpose between two ops, so that neither its load nor its store can do it alone."""
    b = Build()
    x = d.pointwise(b, "x", b.load("t", shape, dtype=d.dtype(FLOATS)))
    b.out(d.pointwise(b, "z", swapped(b, x, axes if d.number % 2 else axes[::-1])))
    return b.function()


def order(d: Draw) -> Function:
    """An axis of 1 changes its place."""
    rows, cols = d.page()
    shape, axes = d.random.choice(
        (((1, rows, cols), (0, 1)), ((2, 1, rows, cols), (1, 2)), ((2, rows, 1, cols), (1, 2)), ((3, 1, 1, cols), (0, 1)))
    )
    return _between(d, shape, axes)


def seen(d: Draw) -> Function:
    """A batch axis and the rows change their places, or two axes with axes of 1 around them do."""
    rows, cols = d.random.choice((2, 3)), d.random.choice((16, 32))
    shape, axes = d.random.choice(
        (((2, rows, cols), (0, 1)), ((1, 16, cols), (0, 2)), ((2, 1, rows, cols), (0, 2)), ((1, 2, rows, cols), (1, 2)))
    )
    return _between(d, shape, axes)


def three(d: Draw) -> Function:
    """A batch axis and the last one change their places."""
    shape = (16, d.random.choice((2, 3)), 16) if d.number % 2 else (2, 16, 2, 16)
    return _between(d, shape, (0, 2) if len(shape) == 3 else (1, 3))


def opened(d: Draw) -> Function:
    """A tile of which every page is cut, or the last pages are missing; the pages or the rows change their places."""
    (rows, cols), four, b = d.page(), d.number % 2, Build()
    shape = (2, 3, rows, cols) if four else (16, 2, 16)
    v = b.scalar("v", 1, shape[-2] - 1)
    valid = (*shape[:-2], v if d.number % 3 else shape[-2] - 1, shape[-1]) if d.number % 4 < 2 else (1, *shape[1:])
    x = d.pointwise(b, "x", b.load("t", shape, valid, d.dtype(FLOATS)))
    b.out(swapped(b, x, (0, 1) if four else (0, 2)))
    return b.function()


def opened_rows(d: Draw) -> Function:
    """A tile whose last pages are missing, or whose columns are cut."""
    b, shape = Build(), d.shape()
    valid = (b.scalar("n", 1, shape[0] - 1), *shape[1:]) if d.number % 2 else (*shape[:-1], shape[-1] - 3)
    b.out(swapped(b, b.load("x", shape, valid, d.dtype(FLOATS)), (len(shape) - 2, len(shape) - 1)))
    return b.function()


def moved(d: Draw) -> Function:
    """Two batch axes change their places."""
    batch = (2, 3) if d.number % 2 else (2, 1, 2)
    return _between(d, (*batch, *d.page()), (0, len(batch) - 1))


def twice(d: Draw) -> Function:
    b, shape = Build(), d.shape() if d.number % 3 else (16, 16)
    x = b.load("x", shape, dtype=d.dtype(FLOATS))
    last = (len(shape) - 2, len(shape) - 1)
    b.out(swapped(b, swapped(b, x, last), (-1, -2) if d.number % 2 else last, "z"))
    return b.function()


def load(d: Draw) -> Function:
    """What is transposed was just loaded, from somewhere in a larger tensor."""
    b, shape = Build(), (d.random.choice((2, 3)), *d.page()) if d.number % 2 else (2, 2, *d.page())
    source = b.tensor("src", tuple(n + 2 for n in shape), d.dtype(FLOATS))
    x = b.read("x", source, shape, None, tuple(d.random.randint(0, 2) for _ in shape))
    b.out(d.pointwise(b, "z", swapped(b, x, (len(shape) - 3, len(shape) - 2))))
    return b.function()


def stored(d: Draw) -> Function:
    """What is transposed is stored at once, somewhere in a larger tensor."""
    b, shape = Build(), (d.random.choice((2, 3)), *d.page()) if d.number % 2 else (2, 2, *d.page())
    x = d.pointwise(b, "x", b.load("t", shape, dtype=d.dtype(FLOATS)))
    y = swapped(b, x, (len(shape) - 3, len(shape) - 2))
    larger = tuple(n + 1 for n in (*shape[:-3], shape[-2], shape[-3], shape[-1]))
    b.out(y, larger if d.number % 3 else (2, *larger), tuple(d.random.randint(0, 1) for _ in (larger if d.number % 3 else (2, *larger))))
    return b.function()


PROGRAMS: dict[str, Generator] = {
    "transpose.twice": twice,
    "transpose.opened": opened,
    "flat.opened": opened_rows,
    "transpose.order": order,
    "transpose.seen": seen,
    "transpose.three": three,
    "pages.moved": moved,
    "transpose.load": load,
    "store.transpose": stored,
}


def _swapped(shape: Shape, axes: Shape, valid: Shape | None = None, again: Shape | None = None) -> Make:
    """A loaded tile transposed, perhaps twice, and stored."""

    def make() -> Function:
        b = Build()
        y = swapped(b, b.load("x", shape, valid), axes)
        b.out(swapped(b, y, again, "z") if again else y)
        return b.function()

    return make


def _written_between() -> Function:
    """The buffer of a load is written before its tile is transposed."""
    b = Build()
    buffer = b.tensor("io", (2, 4, 8), direction="InOut")
    x = b.read("x", buffer, (2, 4, 8))
    b.results.append(b.store("io_1", b.load("w", (2, 4, 8)), buffer))
    b.out(swapped(b, x, (0, 1)))
    return b.function()


def _boxed() -> Function:
    """A tile of boxes in L1."""
    b = Build()
    x = b.load("x", (2, 16, 32), target_memory="Mat")
    b.out(swapped(b, x, (0, 1)))
    return b.function()


NEAR_MISSES: dict[str, tuple[Make, ...]] = {
    "transpose.opened": (_swapped((3, 4, 8), (0, 1), (2, 3, 8)), _swapped((2, 4, 8), (0, 1))),
    "flat.opened": (_swapped((2, 3, 8), (0, 1), (2, 2, 8)),),
    "transpose.twice": (_swapped((1, 4, 8), (1, 2), None, (0, 1)), _swapped((3, 8, 8), (1, 2), (2, 7, 8), (1, 2))),
    "transpose.order": (_swapped((2, 3, 1), (0, 1)), _swapped((3, 1, 4, 8), (0, 1), (2, 1, 3, 8))),
    "transpose.seen": (_swapped((2, 4, 8), (1, 2)), _swapped((3, 4, 8), (0, 1), (2, 3, 8)), _boxed),
    "transpose.three": (_swapped((2, 4, 8), (1, 2)), _swapped((3, 4, 8), (0, 2), (2, 3, 8))),
    "pages.moved": (_swapped((2, 4, 8), (1, 2)), _swapped((2, 2, 4, 8), (0, 1), (2, 1, 3, 8))),
    "transpose.load": (_written_between, _swapped((3, 4, 8), (0, 1), (2, 3, 8)), _swapped((2, 4, 8), (0, 2))),
    "store.transpose": (_swapped((2, 4, 8), (1, 2)), _swapped((3, 4, 8), (0, 1), (2, 3, 8))),
}
