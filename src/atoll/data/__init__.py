"""Datasets: one a file. Each loads one graph, without splits."""

from atoll.data.base import Dataset, datasets

__all__ = ["Dataset", "datasets"]
