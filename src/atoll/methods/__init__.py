"""Methods: one file each, reading like its paper."""

from atoll.federation.protocol import Reply, client_step
from atoll.methods.base import Method, methods

__all__ = ["Method", "Reply", "client_step", "methods"]
