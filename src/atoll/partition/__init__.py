"""Partitions: ways to cut one graph into parties. One scheme per file."""

from atoll.partition.base import Partition, partitions

__all__ = ["Partition", "partitions"]
