"""Numerical building blocks that several models or methods share."""
