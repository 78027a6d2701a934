"""Atoll beside its peers: what `benchmarks/peers.py` is made of."""
