"""Optimizers over stacked parameters, and the ways down that they take. One optimizer per file."""

from atoll.optimizers.base import Optimizer, optimizers

__all__ = ["Optimizer", "optimizers"]
