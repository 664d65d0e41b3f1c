"""Rectangles that cover a tile together, against every cell of it."""

from __future__ import annotations

import random

from egraph_rules.covering import covers


def test_rectangles_cover_a_tile_where_each_cell_is_in_one() -> None:
    draw, found = random.Random(7), {True: 0, False: 0}
    for _ in range(3000):
        rows, columns = draw.randint(1, 5), draw.randint(1, 5)
        rectangles = []
        for _ in range(draw.randint(1, 5)):
            (top, bottom), (left, right) = (sorted(draw.sample(range(n + 1), 2)) for n in (rows, columns))
            rectangles.append((top, bottom, left, right))
        cells = {(r, c) for top, bottom, left, right in rectangles for r in range(top, bottom) for c in range(left, right)}
        expected = len(cells) == rows * columns
        assert covers(rectangles, rows, columns) == expected, rectangles
        found[expected] += 1
    assert min(found.values()) > 300
