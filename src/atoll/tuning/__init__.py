"""Searching for good settings by validation scores."""
