"""Measurements and generated pages: `python -m benchmarks NAME`, run from the project's folder."""
