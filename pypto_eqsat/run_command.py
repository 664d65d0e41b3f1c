"""`pypto-eqsat run`: interpret a function and say what it gave.

    result 0: tensor [2, 3, 4] FP32, checksum 5d0c9a11, 0 undefined
    out_0: 24 of 24 elements written, checksum 5d0c9a11, 0 undefined

Inputs are made from the seed unless given. A checksum is the CRC-32 of the defined cells and of which are
defined, so that two programs with equal results have equal checksums.
"""

from __future__ import annotations

import argparse
import io
import os
import zlib
from typing import Any

from pypto_eqsat.files import UsageFault, make_folder, say, write_atomically
from pypto_ir.diagnostics import Diagnostic, Place, Refused
from pypto_ir.stmt import Function, Program


def run_function(program: Program, arguments: argparse.Namespace) -> int:
    """Run the chosen function and print its results; raises `Refused` where the program has no meaning for
    these inputs."""
    from extract.target import load_target
    from pypto_ir.interp.machine import run
    from pypto_ir.interp.values import RunError

    function = _chosen(program, arguments.function)
    inputs = dict(_input(text) for text in arguments.inputs)
    if arguments.save is not None:
        make_folder(arguments.save)
    try:
        mode = "l0c" if arguments.l0c else "buffer" if arguments.buffer else "value"
        outcome = run(program, function.name, inputs, seed=arguments.seed, mode=mode, reads=load_target(program.target).acc_reads)
        for i, value in enumerate(outcome.returned):
            say(f"result {i}: {_summary(value)}")
            _save(arguments.save, f"result_{i}", value)
        for name, buffer in outcome.memory.items():
            line = _written(buffer)
            if line is not None:
                say(f"{name}: {line}")
                _save_buffer(arguments.save, name, buffer)
        say(f"{outcome.steps} statements executed")
    except RunError as fault:
        raise Refused([Diagnostic(fault.code, fault.message, Place(function=function.name))]) from None
    return 0


def _chosen(program: Program, name: str | None) -> Function:
    names = ", ".join(f.name for f in program.functions) or "none"
    if name is None:
        able = [f for f in program.functions if f.verbatim is None]
        if len(able) != 1:
            raise UsageFault(
                "U001",
                f"the program has {len(able)} functions to run",
                None,
                f"choose one with --function: {names}",
            )
        return able[0]
    function = program.function(name)
    if function is None:
        raise UsageFault("U004", f"the program has no function {name!r}", None, f"it has: {names}")
    return function


def _input(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not name or not separator or not value:
        raise UsageFault("U001", f"found --input {text}, allowed is NAME=FILE.npy or NAME=NUMBER")
    for number in (int, float):
        try:
            return name, number(value)
        except ValueError:
            continue
    from pypto_ir.lazy import np

    try:
        return name, np.load(value, allow_pickle=False)
    except OSError as fault:
        raise UsageFault("U002", f"cannot be read: {(fault.strerror or str(fault)).lower()}", value) from None
    except (ValueError, EOFError) as fault:
        raise UsageFault("U005", f"is no array file: {str(fault).splitlines()[0]}", value) from None


def _summary(value: Any) -> str:
    from pypto_ir.interp.memory import Tensor
    from pypto_ir.interp.values import Tile

    match value:
        case Tile():
            valid = "" if value.valid == value.shape else f" valid {list(value.valid)}"
            kind = f"tile {list(value.shape)}{valid} {value.data.dtype.name}"
            return f"{kind}, {_checked(value.data, value.readable())}"
        case Tensor():
            kind = f"tensor {list(value.shape)} {value.dtype.value}"
            if value.buffer.dense:
                return f"{kind}, {_checked(*_cells(value))}"
            return f"{kind}, in {value.buffer.name}"
        case tuple():
            return "tuple (" + "; ".join(map(_summary, value)) + ")"
    return f"scalar {value}"


def _cells(tensor: Any) -> tuple[Any, Any]:
    data, ok = tensor.read((0,) * len(tensor.shape), tensor.shape)
    return data, ok


def _checked(data: Any, ok: Any) -> str:
    from pypto_ir.lazy import np

    defined = np.ascontiguousarray(np.where(ok, data, np.zeros((), dtype=data.dtype)))
    mask = np.packbits(np.ascontiguousarray(np.broadcast_to(ok, data.shape)))
    checksum = zlib.crc32(mask.tobytes(), zlib.crc32(defined.tobytes()))
    undefined = data.size - int(np.count_nonzero(np.broadcast_to(ok, data.shape)))
    return f"checksum {checksum:08x}, {undefined} undefined"


def _written(buffer: Any) -> str | None:
    """What was written to a buffer, or None where nothing was."""
    from pypto_ir.lazy import np

    written = undefined = checksum = 0
    for number in buffer.written_pages():
        data, ok, marks = buffer.page(number)
        cells = data[marks & ok]
        checksum = zlib.crc32(
            np.packbits(marks & ok).tobytes(),
            zlib.crc32(cells.tobytes(), zlib.crc32(str(number).encode(), checksum)),
        )
        written += int(np.count_nonzero(marks))
        undefined += int(np.count_nonzero(marks & ~ok))
    if not written:
        return None
    count = f"{written} of {buffer.size} elements of {buffer.dtype.value} written"
    return f"{count}, checksum {checksum:08x}, {undefined} undefined"


def _save(folder: str | None, name: str, value: Any) -> None:
    from pypto_ir.interp.memory import Tensor
    from pypto_ir.interp.values import Tile

    if folder is None:
        return
    match value:
        case Tile():
            _save_array(folder, name, value.data)
        case Tensor():
            _save_array(folder, name, _cells(value)[0])
        case tuple():
            for i, item in enumerate(value):
                _save(folder, f"{name}_{i}", item)
        case _:
            from pypto_ir.lazy import np

            _save_array(folder, name, np.asarray(value))


def _save_buffer(folder: str | None, name: str, buffer: Any) -> None:
    if folder is not None:
        from pypto_ir.interp.memory import Tensor

        _save_array(folder, name, _cells(Tensor(buffer, (buffer.size,)))[0])


def _save_array(folder: str, name: str, array: Any) -> None:
    """Write a .npy file; element types that the format has no name for (BF16, FP8, ..) are written as FP32,
    which holds them exactly."""
    from pypto_ir.lazy import np

    if array.dtype.kind == "V" or not array.dtype.isbuiltin:
        array = array.astype(np.float32)
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    write_atomically(os.path.join(folder, f"{name}.npy"), stream.getvalue())
