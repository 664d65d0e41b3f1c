"""Results kept under what they depend on: the program's bytes, the options, the target and the engine.

    key = key_of(job)                    64 hexadecimal digits
    cache.get(key), cache.put(key, outcome)

An entry is one JSON file `ab/cd..json`, written whole or not at all; one that was damaged since is not found. What was refused is kept
as well, with its diagnostics; what a fault or a dead worker left is not, so that the next run tries it again.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from typing import Any

from pypto_eqsat.batch.engine import engine_digest
from pypto_eqsat.batch.job import LASTING, Job, Outcome
from pypto_eqsat.files import make_folder, write_atomically
from pypto_ir.diagnostics import Diagnostic, Place, Severity, declare
from pypto_ir.formats import format_of_path

#: form of the entries; entries of another form have other names
FORM = 1


def key_of(job: Job) -> str:
    """The name of a job's result. The name of its file is no part of it, only the form that its suffix asks for."""
    about = {"form": FORM, "engine": engine_digest(), "options": job.options.described(), "writes": format_of_path(job.name)}
    head = json.dumps(about, sort_keys=True).encode()
    return hashlib.sha256(hashlib.sha256(head).digest() + hashlib.sha256(job.data).digest()).hexdigest()


class Cache:
    """Results in a folder that several runs may use at the same time."""

    def __init__(self, folder: str) -> None:
        """Raises `UsageFault` (U003) where the folder cannot be made or written."""
        self.folder = folder
        make_folder(folder)

    def get(self, key: str) -> Outcome | None:
        """The result of a key, None where there is none that is whole."""
        try:
            with open(self._path(key), "rb") as file:
                return _decoded(file.read())
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, outcome: Outcome) -> None:
        """Keep what would come out the same again. Raises `UsageFault` (U003)."""
        if outcome.status in LASTING:
            path = self._path(key)
            make_folder(os.path.dirname(path))
            write_atomically(path, _encoded(outcome))

    def _path(self, key: str) -> str:
        return os.path.join(self.folder, key[:2], f"{key[2:]}.json")


def _encoded(outcome: Outcome) -> bytes:
    content: dict[str, Any] = {
        "status": outcome.status,
        "output": None if outcome.output is None else outcome.output.decode(),
        "stats": outcome.stats,
        "diagnostics": [{**asdict(d), "severity": d.severity.value} for d in outcome.diagnostics],
        "codes": outcome.codes,
        "engine": outcome.engine,
    }
    text = json.dumps(content, ensure_ascii=False)
    return json.dumps({"sha256": _digest(text), "content": text}, ensure_ascii=False).encode()


def _decoded(data: bytes) -> Outcome | None:
    entry = json.loads(data)
    if _digest(entry["content"]) != entry["sha256"]:
        return None
    content = json.loads(entry["content"])
    declare(**content["codes"])
    found = (Diagnostic(**{**d, "place": Place(**d["place"]), "severity": Severity(d["severity"])}) for d in content["diagnostics"])
    output = None if content["output"] is None else content["output"].encode()
    return Outcome(content["status"], output, tuple(found), content["stats"], content["codes"], content["engine"])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
