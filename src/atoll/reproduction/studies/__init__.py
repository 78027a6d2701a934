"""Studies: from an experiment to named numbers, which recipes compare with a paper's."""

from atoll.reproduction.studies.base import Study, studies

__all__ = ["Study", "studies"]
