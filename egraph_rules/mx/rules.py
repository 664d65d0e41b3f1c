"""The rules of the pass by name: equation, side condition, and what would go wrong without it.

They rewrite whole programs and stand beside the e-graph, since nothing is chosen between a logical tensor and its blocked form: the
machine reads boxes only, and a type changes in every function at once.
"""

from __future__ import annotations

from egraph_rules.catalogue import Rule


def _rule(name: str, equation: str, condition: str, counterexample: str) -> Rule:
    return Rule(name, equation, condition, counterexample, "mx", (name,))


RULES = (
    _rule(
        "mx.type",
        "MX_A_ZZ [M, G] = [1, M/16, G/2, 16, 2], MX_B_NN [G, N] = [1, N/16, G/2, 16, 2]",
        "the tensor is static, of whole boxes, packed, valid as a whole and not distributed",
        "24 rows of A end in the middle of a box: row 24 of a blocked [1, 2, ..] would be memory that the tensor does not have",
    ),
    _rule(
        "mx.load",
        "load(t, [m, g], [h, w]) = load(blocked t, [0, m/16, g/2, 0, 0], [1, h/16, w/2, 16, 2]), for B with block and group axis exchanged",
        "the window is static and of whole boxes, its offsets are proved to be non-negative multiples of the box, and it is not known to "
        "reach past the end",
        "row 8 of A is in the middle of box 0: box 8 // 16 = 0 starts at row 0, eight rows too early",
    ),
    _rule(
        "mx.store",
        "store(x, [m, g], t) = store(x, [0, m/16, g/2, 0, 0], blocked t)",
        "x holds whole FP8E8M0 boxes in the order of t, its offsets are proved as those of a load; only where stores are asked for",
        "a tile in col_major/col_major stored into MX_A_ZZ would put scale (0, 1) where scale (1, 0) belongs",
    ),
    _rule(
        "mx.view",
        "view(x, s, MX) = view(x, blocked s, MX), view(t, s, ND) = view(blocked t, s, ND)",
        "the view names a shape of as many FP8E8M0 cells and its source is packed and valid as a whole",
        "a view without a shape exchanges rows and columns of the label, but no byte of a box moves",
    ),
    _rule(
        "mx.create",
        "create([M, G], MX) = create([1, M/16, G/2, 16, 2], MX)",
        "the shape is static and of whole boxes",
        "create([24, 2], MX_A_ZZ) has 48 bytes, its boxes take 64",
    ),
    _rule(
        "mx.offset.constant",
        "c / d = the constant c // d",
        "c is a non-negative multiple of d, 16 on the block axis and 2 on the group axis",
        "-16 // 16 = -1, which a partition clamps to box 0",
    ),
    _rule(
        "mx.offset.quotient",
        "e / d = FloorDiv(e, d), evaluated at the width of e",
        "e is proved to be a non-negative multiple of d; the rules of quotients find equal expressions of fewer operations",
        "e = -16 gives -1, and e = 24 gives 1 by floor where rows 24 to 39 are in two boxes",
    ),
)
