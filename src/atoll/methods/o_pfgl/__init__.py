"""O-pFGL: one round, sums of class statistics, and a synthetic graph."""

from atoll.methods.o_pfgl.method import OpFGL

__all__ = ["OpFGL"]
