"""Graph federated learning with hidden representation sharing, and the baselines of its paper."""

from atoll.methods.gfl_appnp.fed_mlp import FedMLP
from atoll.methods.gfl_appnp.method import GFLAPPNP
from atoll.methods.gfl_appnp.mlp import LoneMLPs

__all__ = ["GFLAPPNP", "FedMLP", "LoneMLPs"]
