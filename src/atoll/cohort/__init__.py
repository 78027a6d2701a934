"""K clients packed for torch, and what a first layer is computed from."""

from atoll.cohort.cohort import Cohort

__all__ = ["Cohort"]
