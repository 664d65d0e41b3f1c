"""Rows of an experiment as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import astuple, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def csv_text(rows: Iterable[DataclassInstance], kind: type[DataclassInstance]) -> str:
    """A line with the names of the fields of `kind`, then one for each row."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([f.name for f in fields(kind)])
    writer.writerows(astuple(row) for row in rows)
    return out.getvalue()
