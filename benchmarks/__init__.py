"""Measurements and generated pages of the project: `python -m benchmarks NAME`, run from the project's folder."""
