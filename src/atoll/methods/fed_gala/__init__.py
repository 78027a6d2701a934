"""Fed-GALA, its proximal variant, and the two that its augmentation is compared with."""

from atoll.methods.fed_gala.method import FedGala
from atoll.methods.fed_gala.variants import FedGalaP, MaxAugment, NoAugment

__all__ = ["FedGala", "FedGalaP", "MaxAugment", "NoAugment"]
