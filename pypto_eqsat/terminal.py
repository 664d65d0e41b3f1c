"""What a terminal gets and a file or a pipe does not: colours, lines with carets, and a line that shows how far the work is.

`NO_COLOR` and `TERM=dumb` ask for plain text on a terminal as well, `CLICOLOR_FORCE` for colours everywhere.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from pypto_ir.diagnostics import Diagnostic, Place, Severity

#: seconds of work before its progress is shown, and between two looks at it
PATIENCE, PERIOD = 2.0, 0.2
#: widest line of a file that is shown below a diagnostic, in characters
WIDEST = 160
_BOLD, _RED, _YELLOW, _CYAN, _GREEN, _OFF = "\x1b[1m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;36m", "\x1b[1;32m", "\x1b[0m"
_COLOURS = {Severity.ERROR: _RED, Severity.WARNING: _YELLOW, Severity.NOTE: _CYAN}


class _Settings(threading.local):
    quiet = False


_settings = _Settings()


def be_quiet(quiet: bool) -> None:
    """Say errors only, from here on in this thread."""
    _settings.quiet = quiet


def is_quiet() -> bool:
    """Whether only errors are said."""
    return _settings.quiet


def is_terminal(stream: Any) -> bool:
    """Whether a person looks at a stream as it is written."""
    try:
        return bool(stream.isatty()) and os.environ.get("TERM", "") != "dumb"
    except (AttributeError, ValueError):
        return False


def coloured(stream: Any) -> bool:
    """Whether a stream gets colours."""
    if os.environ.get("NO_COLOR", ""):
        return False
    forced = os.environ.get("CLICOLOR_FORCE", "")
    return is_terminal(stream) or forced not in ("", "0")


def shown(d: Diagnostic, stream: Any) -> str:
    """A diagnostic as it is written to a stream: as it is, or with colours and the line of the file that it points to."""
    if not coloured(stream):
        return str(d)
    text = d.excerpt or _excerpt(d.place)
    where, colour = str(d.place), _COLOURS[d.severity]
    head = f"{_BOLD}{where}:{_OFF} " if where else ""
    lines = [f"{head}{colour}{d.severity.value}[{d.code}]:{_OFF} {_BOLD}{d.message}{_OFF}"]
    if text:
        *source, caret = text.split("\n")
        lines += [*(f"  | {line}" for line in source), f"  | {_GREEN}{caret}{_OFF}"]
    if d.help:
        lines.append(f"  {_CYAN}help:{_OFF} {d.help}")
    return "\n".join(lines)


def _excerpt(place: Place) -> str | None:
    """The line of a place with a caret below it, where the file can be read."""
    if place.file is None or place.line is None:
        return None
    try:
        with open(place.file, encoding="utf-8") as file:
            line = next((text for number, text in enumerate(file, 1) if number == place.line), None)
    except (OSError, ValueError):
        return None
    if line is None or not line.strip():
        return None
    column = place.column or 1
    start = max(0, column - WIDEST // 2) if len(line) > WIDEST else 0
    part = line.rstrip("\n")[start : start + WIDEST].replace("\t", " ")
    return f"{part}\n{' ' * (column - 1 - start)}^"


class Progress:
    """A line at the bottom of a terminal that says what is done, from two seconds of work on; nothing where nobody looks.

        with Progress(lambda: f"{done} of {total}"):
            ..

    `text` is called from another thread while the work goes on. Whatever is printed meanwhile goes above the line (`aside`)."""

    def __init__(self, text: Callable[[], str], stream: Any = None, patience: float = PATIENCE) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.text, self.patience = text, patience
        self.wanted = is_terminal(self.stream) and not is_quiet()
        self._lock, self._end, self._width = threading.RLock(), threading.Event(), 0
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self.wanted:
            self._thread = threading.Thread(target=self._show, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
        self.aside()

    def aside(self) -> None:
        """Take the line away, so that something can be printed in its place."""
        with self._lock:
            if self._width:
                self._write("\r" + " " * self._width + "\r")
                self._width = 0

    def _show(self) -> None:
        begun = time.monotonic()
        while not self._end.wait(PERIOD):
            if time.monotonic() - begun < self.patience:
                continue
            with self._lock:
                line = self.text()[: _columns(self.stream) - 1]
                self._write("\r" + line.ljust(self._width))
                self._width = len(line)

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.stream.write(text)
            self.stream.flush()


def _columns(stream: Any) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):
        return 80


def duration(seconds: float) -> str:
    """Seconds as people say them: `8 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
