"""Sums of which the server sees nothing but the sum (Bonawitz et al., 2017)."""
