"""Flower as an engine. Its library is imported where it is used, and nowhere else."""
