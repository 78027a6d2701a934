"""Facebook pages and Twitch streamers (MUSAE)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from atoll.data.base import datasets
from atoll.data.prepare import prepared
from atoll.data.published import PublishedDataset
from atoll.data.published_npz import read_edge_list_npz
from atoll.errors import AtollError, unknown
from atoll.graph import SPLITS, Graph, Holding, stacked

Country = Literal["all", "DE", "EN", "ES", "FR", "PT", "RU"]
COUNTRIES = tuple(country for country in get_args(Country) if country != "all")


@datasets.register("facebook")
@dataclass(frozen=True, kw_only=True)
class Facebook(PublishedDataset):
    """22,470 verified Facebook pages, 170,823 mutual likes, 4,714 words, 4 kinds of page.

    From Rozemberczki et al. (2021). The authors' files have 4,714 binary features; the copy that
    torch_geometric downloads has 128 embedded ones. ``largest_component`` keeps only the largest
    connected component (the graph is connected) and ``normalise`` divides each page's words by
    their number.
    """

    folder: ClassVar[str] = "FacebookPagePage"
    largest_component: bool = False
    normalise: bool = False

    def files(self) -> tuple[str, ...]:
        return ("raw/facebook.npz",)

    def address(self, file: str) -> str:
        from torch_geometric.datasets import FacebookPagePage as Source

        address: str = Source.url
        return address

    def read(self, files: Sequence[Path]) -> Graph:
        graph = read_edge_list_npz(files[0], self.registered_name)
        return prepared(graph, component=self.largest_component, normalise=self.normalise)


@datasets.register("twitch")
@dataclass(frozen=True, kw_only=True)
class Twitch(PublishedDataset):
    """34,118 Twitch streamers in six countries, each a natural client; mature content or not.

    Friendships, and 3,170 binary features of games, places and habits, one feature space for all
    (Rozemberczki et al., 2021); the copy that torch_geometric downloads has 128 embedded features.
    ``country`` takes a single one: DE, EN, ES, FR, PT or RU. ``largest_component`` keeps each
    country's largest connected component (every country is connected) and ``normalise`` divides
    each streamer's features by their number.
    """

    folder: ClassVar[str] = "Twitch"
    country: Country = "all"
    largest_component: bool = False
    normalise: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.country not in get_args(Country):
            raise unknown("value of data.country:", self.country, get_args(Country))

    @property
    def countries(self) -> tuple[str, ...]:
        return COUNTRIES if self.country == "all" else (self.country,)

    def files(self) -> tuple[str, ...]:
        return tuple(f"{country}/raw/{country}.npz" for country in self.countries)

    def address(self, file: str) -> str:
        from torch_geometric.datasets import Twitch as Source

        return f"{Source.url}/{Path(file).name}"

    def read(self, files: Sequence[Path]) -> Graph:
        graphs: list[Graph] = []
        for path, country in zip(files, self.countries, strict=True):
            graph = read_edge_list_npz(path, country)
            if graphs and graph.features != graphs[0].features:
                raise AtollError(
                    f"'{path}' has {graph.features} features and '{files[0]}' has "
                    f"{graphs[0].features}; take all countries from one source."
                )
            ids = np.char.add(f"{country}-", np.arange(graph.nodes).astype(str))
            graph = replace(graph, ids=ids)
            graphs.append(
                prepared(graph, component=self.largest_component, normalise=self.normalise)
            )
        return union(graphs, self.registered_name)


def union(graphs: Sequence[Graph], name: str) -> Graph:
    """Graphs side by side as one, without edges between them; each is a natural holding."""
    starts = np.cumsum([0, *(graph.nodes for graph in graphs)])
    joined: dict[str, Any] = {
        part: np.concatenate([getattr(graph, part) for graph in graphs])
        for part in ("y", *SPLITS, "ids")
    }
    return Graph(
        x=stacked([graph.x for graph in graphs]),
        edges=np.concatenate(
            [graph.edges + start for graph, start in zip(graphs, starts, strict=False)], axis=1
        ),
        classes=max(graph.classes for graph in graphs),
        name=name,
        holdings=tuple(
            Holding(graph.name, np.arange(start, start + graph.nodes))
            for graph, start in zip(graphs, starts, strict=False)
        ),
        **joined,
    )
