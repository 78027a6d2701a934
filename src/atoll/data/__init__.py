"""Datasets: one family per file. Each loads one graph, with its published split if it has one."""

from atoll.data.base import Dataset, datasets
from atoll.data.in_memory import from_graph
from atoll.data.networkx_graph import from_networkx
from atoll.data.parties import Parties, load_party, write_parties
from atoll.data.pyg_data import from_pyg
from atoll.data.table_columns import Columns
from atoll.data.tables import Tables
from atoll.data.user_npz import Npz

__all__ = [
    "Columns",
    "Dataset",
    "Npz",
    "Parties",
    "Tables",
    "datasets",
    "from_graph",
    "from_networkx",
    "from_pyg",
    "load_party",
    "write_parties",
]
