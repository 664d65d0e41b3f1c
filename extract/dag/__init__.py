"""Extraction from e-graphs by DAG cost: simplified, taken apart, searched and proved."""
