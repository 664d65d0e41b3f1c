"""The programs of a folder and where their results go: the same names below another folder."""

from __future__ import annotations

import os

from pypto_eqsat.files import UsageFault, reason

#: files that hold programs, in JSON or printed
SUFFIXES = (".json", ".py")


def program_files(folder: str, leave_out: str) -> list[str]:
    """The program files of a folder and those inside it, as paths relative to it, sorted; hidden ones and what lies in `leave_out` are
    not looked at, links to folders are not followed. Raises `UsageFault` (U002) where the folder cannot be read."""
    skipped = os.path.realpath(leave_out)

    def failed(fault: OSError) -> None:
        raise UsageFault("U002", f"cannot be read: {reason(fault)}", fault.filename or folder)

    found = []
    for path, folders, files in os.walk(folder, onerror=failed):
        folders[:] = [f for f in folders if not f.startswith(".") and os.path.realpath(os.path.join(path, f)) != skipped]
        names = (f for f in files if not f.startswith(".") and f.endswith(SUFFIXES))
        found += [os.path.relpath(os.path.join(path, name), folder) for name in names]
    return sorted(found)
