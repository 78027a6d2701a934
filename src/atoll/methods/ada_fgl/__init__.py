"""AdaFGL: federated averaging, then personal propagation."""

from atoll.methods.ada_fgl.method import AdaFGL

__all__ = ["AdaFGL"]
