"""The network among sites, as an operator writes it down for methods whose server knows it."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import torch

from atoll.errors import AtollError, unknown


def read_network(file: Path, sites: Sequence[str]) -> torch.Tensor:
    """Links ``[K, K]`` from a CSV of two sites and an optional weight per line, both ways."""
    matrix = torch.zeros(len(sites), len(sites), dtype=torch.float64)
    try:
        rows = [row for row in csv.reader(file.read_text().splitlines()) if row]
    except OSError as problem:
        raise AtollError(f"'{file}' can't be read ({problem.strerror}); check the path.") from None
    for number, row in enumerate(rows, 1):
        if len(row) not in (2, 3):
            raise AtollError(f"'{file}', line {number}: write two sites and perhaps a weight.")
        for name in row[:2]:
            if name.strip() not in sites:
                raise unknown(f"site in '{file}', line {number}", name.strip(), sites)
        a, b = (sites.index(name.strip()) for name in row[:2])
        try:
            weight = float(row[2]) if len(row) == 3 else 1.0
        except ValueError:
            raise AtollError(f"'{file}', line {number}: '{row[2]}' is no weight.") from None
        matrix[a, b] = matrix[b, a] = weight
    return matrix.fill_diagonal_(0)
