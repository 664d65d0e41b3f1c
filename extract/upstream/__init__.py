"""The hand-written pass FlattenTileNdTo2D, restated: what PyPTO's compiler makes of a function, statement by statement.

It works from IR to IR in one walk, without an e-graph and without a cost: the baseline that a chosen program is measured against, and a
lowering for whoever wants exactly that. `x = load [2, 3, 4]`, `y = add(x, x)`, `store(y, [0, 0, 0], out)` becomes the same three ops on
[6, 4] with the window [2, 3, 4] at the store.

What upstream refuses is refused here, each cause with a code of its own. Where upstream's program would compute other values, would not
be accepted by what comes after it, or where upstream ends in an internal error, either the right program is given and W401 or W402 says
how upstream's differs, or the function is refused. Attributes and MemRefs that upstream loses on the way are kept.

Source: `spec/flatten.md` sections 1 to 11; the faults are those of section 14 and of `spec/upstream_faults.md`.
"""
