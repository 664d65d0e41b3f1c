"""Reading input and writing output, so that a file is either whole or as it was before.

`write_atomically("out.json", data)` writes a file without a name, which becomes `out.json` when all of it is on the disk; where the file
system has no such files, it is called `.out.json.4711.tmp` until then. So a process that is killed at any moment leaves the old file or
the new one, and no part of one. Devices and pipes are written directly, `-` is a standard stream. What the user has to mend is raised as
`UsageFault`: a diagnostic with a U-code, which ends the process with exit code 2.
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
        raise UsageFault("U002", f"cannot be read: {reason(fault)}", path) from None
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
        raise UsageFault("U003", f"cannot be written: {reason(fault)}", path) from None


def write_atomically(path: str, data: bytes) -> None:
    """Write a whole file or nothing; an existing file keeps its permissions. Raises `UsageFault` (U003)."""
    if path == STANDARD:
        _write_stream(data)
        return
    try:
        target = os.path.realpath(path)
        if _is_special(target):
            with open(target, "wb") as device:
                device.write(data)
        else:
            _replace(target, data)
    except (OSError, ValueError) as fault:
        raise UsageFault("U003", f"cannot be written: {reason(fault)}", path) from None


def _replace(target: str, data: bytes) -> None:
    """Put a file in the place of another, or of none, in one step."""
    mode = stat.S_IMODE(os.stat(target).st_mode) if os.path.exists(target) else None
    temporary = _temporary(target)
    try:
        handle, named = _open_new(target, temporary)
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
            if not named:
                # the descriptor of a folder, ignored beside an absolute path, is what makes Python follow the link to the file
                os.link(f"/proc/self/fd/{file.fileno()}", temporary, src_dir_fd=file.fileno(), follow_symlinks=True)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError, ValueError):
            os.unlink(temporary)
        raise


def _open_new(target: str, temporary: str) -> tuple[int, bool]:
    """A new file in the folder of `target`, open for writing, and whether it is called `temporary` or has no name yet."""
    flag = getattr(os, "O_TMPFILE", 0)
    if flag and os.path.isdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # not every file system has files without names
            return os.open(os.path.dirname(target) or ".", os.O_WRONLY | flag, 0o666), False
    return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), True


def make_folder(path: str) -> None:
    """Make a folder and those around it where they are not there yet. Raises `UsageFault` (U003) where it cannot be made or written."""
    try:
        os.makedirs(path, exist_ok=True)
    except (OSError, ValueError) as fault:
        raise UsageFault("U003", f"cannot be made: {reason(fault)}", path) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise UsageFault("U003", "cannot be written: it is write-protected", path)


def say(text: str) -> None:
    """Print a line to standard output at once. Raises `UsageFault` (U003), `BrokenPipeError` where nobody
    reads any more."""
    _write_stream(f"{text}\n".encode())


def tell(text: str) -> None:
    """Write a text to standard error at once, where somebody listens."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()


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
        raise UsageFault("U003", f"cannot be written: {reason(fault)}", "<standard output>") from None


def _is_special(target: str) -> bool:
    return os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode)


def _temporary(target: str) -> str:
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name[:200]}.{os.getpid()}.tmp")


def reason(fault: Exception) -> str:
    """What the system has against something, in words."""
    return (fault.strerror or str(fault)).lower() if isinstance(fault, OSError) else str(fault)
