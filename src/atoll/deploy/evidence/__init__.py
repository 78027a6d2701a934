"""The record of every message as evidence: chained by hashes, signed by both sides."""
