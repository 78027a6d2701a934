"""Experiments: what is run, how it is run, and what is kept of it."""
