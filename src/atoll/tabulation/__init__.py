"""Anybody's table: rows, columns and seeds of a study, its runs, tests and ranks."""
