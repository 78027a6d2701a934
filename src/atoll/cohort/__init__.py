"""The data of K clients, packed so that one operation serves them all."""

from atoll.cohort.cohort import SPLITS, Cohort

__all__ = ["SPLITS", "Cohort"]
