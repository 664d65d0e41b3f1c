"""Which versions of this project and of its libraries are installed."""

from __future__ import annotations


def installed(name: str = "pypto-eqsat") -> str | None:
    """The version of a distribution, None where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None
