"""What must hold for every method, run over any of them, with words for what does not."""

from atoll.laws.laws import LAWS, Finding, Law, Subject, check_laws
from atoll.laws.subject import subject_of

__all__ = ["LAWS", "Finding", "Law", "Subject", "check_laws", "subject_of"]
