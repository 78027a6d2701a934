"""Tasks: what a model is trained for and how it is scored. One task per file."""

from atoll.tasks.base import Task, tasks

__all__ = ["Task", "tasks"]
