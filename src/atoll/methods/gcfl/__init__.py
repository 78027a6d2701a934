"""Clusters of clients that split by their updates."""

from atoll.methods.gcfl.method import GCFL

__all__ = ["GCFL"]
