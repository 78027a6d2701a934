"""Methods: one file or package each, reading like its paper."""

from atoll.federation.calls import Reply, client_step
from atoll.federation.protocol import Federation
from atoll.federation.tables import updated
from atoll.methods.base import PRIVATE, SCALAR, Info, Method, methods, register
from atoll.methods.client import Client
from atoll.methods.global_model import GlobalModel
from atoll.options import option

__all__ = [
    "PRIVATE",
    "SCALAR",
    "Client",
    "Federation",
    "GlobalModel",
    "Info",
    "Method",
    "Reply",
    "client_step",
    "methods",
    "option",
    "register",
    "updated",
]
