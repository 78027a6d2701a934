"""Models: functions of stacked parameters over a cohort. One model per file."""

from atoll.models.base import Model, models

__all__ = ["Model", "models"]
