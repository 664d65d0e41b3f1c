"""Reading input and writing output, so that a file is either whole or as it was before.

`write_atomically("out.json", data)` writes `.out.json.4711.tmp` beside it and renames that; devices and pipes
are written directly, `-` is a standard stream. What the user has to mend is raised as `UsageFault`: a
diagnostic with a U-code, which ends the process with exit code 2.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys

from pypto_ir.diagnostics import Diagnostic, Place, declare
from pypto_ir.json_text import MAX_BYTES, too_large

declare(
    U001="the command line is wrong",
    U002="the input cannot be read",
    U003="the output cannot be written",
    U004="a name on the command line is not known",
    U005="an input array does not fit",
)

STANDARD = "-"


class UsageFault(Exception):
    """Something outside of the program has to be mended: a path, an option, a name."""

    def __init__(self, code: str, message: str, place: str | None = None, help: str | None = None) -> None:
        super().__init__(message)
        self.diagnostic = Diagnostic(code, message, Place(place), help)


def read_input(path: str) -> bytes:
    """The bytes of a file or of standard input. Raises `UsageFault` where it cannot be read, `Refused` (J001)
    where it is too large; of such a file no more than the limit is read."""
    try:
        if path == STANDARD:
            if sys.stdin is None:
                raise UsageFault("U002", "standard input is closed", STANDARD)
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with open(path, "rb") as file:
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and os.fstat(file.fileno()).st_size > MAX_BYTES:
                    raise too_large(path)
                data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as fault:
        raise UsageFault("U002", f"cannot be read: {_reason(fault)}", path) from None
    if len(data) > MAX_BYTES:
        raise too_large(display_name(path))
    return data


def display_name(path: str) -> str:
    """A path as diagnostics name it."""
    return "<standard input>" if path == STANDARD else path


def check_writable(path: str) -> None:
    """Raise `UsageFault` (U003) where `write_atomically` could not write to `path`; called before any work is
    done."""
    if path == STANDARD:
        return
    try:
        target = os.path.realpath(path)
        with contextlib.suppress(FileNotFoundError):
            os.stat(target)
        if os.path.isdir(target) or path.endswith(("/", os.sep)):
            raise UsageFault("U003", "cannot be written: it is a directory", path)
        if os.path.exists(target) and not os.access(target, os.W_OK):
            raise UsageFault("U003", "cannot be written: it is write-protected", path)
        if not _is_special(target):
            temporary = _temporary(target)
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            os.unlink(temporary)
    except (OSError, ValueError) as fault:
        raise UsageFault("U003", f"cannot be written: {_reason(fault)}", path) from None


def write_atomically(path: str, data: bytes) -> None:
    """Write a whole file or nothing; an existing file keeps its permissions. Raises `UsageFault` (U003)."""
    if path == STANDARD:
        _write_stream(data)
        return
    temporary = ""
    try:
        target = os.path.realpath(path)
        temporary = _temporary(target)
        if _is_special(target):
            with open(target, "wb") as device:
                device.write(data)
            return
        mode = stat.S_IMODE(os.stat(target).st_mode) if os.path.exists(target) else None
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as fault:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        if isinstance(fault, OSError | ValueError):
            raise UsageFault("U003", f"cannot be written: {_reason(fault)}", path) from None
        raise


def say(text: str) -> None:
    """Print a line to standard output at once. Raises `UsageFault` (U003), `BrokenPipeError` where nobody
    reads any more."""
    _write_stream(f"{text}\n".encode())


def abandon_output() -> None:
    """Give up standard output, so that what is still buffered raises nothing while Python shuts down."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_stream(data: bytes) -> None:
    if sys.stdout is None:
        raise UsageFault("U003", "standard output is closed", STANDARD)
    try:
        stream = getattr(sys.stdout, "buffer", None)
        if stream is None:  # a replacement that holds text only
            sys.stdout.write(data.decode())
        else:
            sys.stdout.flush()
            stream.write(data)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as fault:
        abandon_output()
        raise UsageFault("U003", f"cannot be written: {_reason(fault)}", "<standard output>") from None


def _is_special(target: str) -> bool:
    return os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode)


def _temporary(target: str) -> str:
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name[:200]}.{os.getpid()}.tmp")


def _reason(fault: Exception) -> str:
    return (fault.strerror or str(fault)).lower() if isinstance(fault, OSError) else str(fault)
