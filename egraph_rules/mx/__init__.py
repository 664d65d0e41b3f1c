"""Blocking of MX scale tensors: logical matrices of scales become tensors of 16 x 2 boxes, in types and in coordinates.

    a_s: MX_A_ZZ [64, 4]                       a_s: MX_A_ZZ [1, 4, 2, 16, 2]
    load(a_s, [r, 2], [16, 2], [16, 2])        load(a_s, [0, r // 16, 1, 0, 0], [1, 1, 1, 16, 2], [1, 1, 1, 16, 2])

No byte moves: host buffers are packed in box order already, and the logical shape is a label. A load is rewritten only where its
offsets are proved to be multiples of the box and not negative; what cannot be proved is refused.
"""
