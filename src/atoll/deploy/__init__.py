"""Deployment: the same methods where the parties' graphs really are, on an existing engine."""
