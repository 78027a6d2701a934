"""Datasets: one family a file. Each loads one graph, with its published split if it has one."""

from atoll.data.base import Dataset, datasets

__all__ = ["Dataset", "datasets"]
