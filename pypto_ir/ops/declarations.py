"""Imports every module that declares ops, so that the registry is complete after `import
pypto_ir.ops.declarations`.

A new op of a known family is a row in its module's table; a new family is a module and a line here.
"""

from __future__ import annotations

from pypto_ir.ops import (  # noqa: F401
    arrays,
    create,
    cross_core,
    distributed,
    elementwise,
    expand,
    gather,
    indexed,
    matmul,
    matmul_mx,
    memory,
    pads,
    reduce,
    scalar_ops,
    scatter,
    select,
    sequences,
    sort,
    system,
    tensor_matmul,
    tensor_memory,
    tensor_twins,
    tensor_windows,
    tensors,
    views,
    windows,
)
