"""GFL's connectivity by degree, ours beside the paper's (Wu et al., 2022, Appendix A.2.3).

    python benchmarks/gfl_connectivity.py [--seeds 20]

The paper draws one network for each degree; ours are as many as there are seeds.
"""

import argparse
import statistics

from rich.console import Console
from rich.table import Table

from atoll.data.csbm_points import SupervisedClients

PAPER = {25: 1.76e-3, 15: 4.17e-3, 10: 1.09e-2, 5: 7.52e-2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    seeds = range(parser.parse_args().seeds)
    table = Table("degree", "paper", "ours, median", "least", "most", title="lambda_max(B_N L^+)")
    for degree, paper in PAPER.items():
        networks = (
            SupervisedClients(
                nodes=40, feature_signal=1.0, community_signal=2.0, degree=degree, graph_seed=seed
            )
            for seed in seeds
        )
        values = [network.connectivity() for network in networks]
        ours = (statistics.median(values), min(values), max(values))
        table.add_row(str(degree), *(f"{value:.2e}" for value in (paper, *ours)))
    Console().print(table)


if __name__ == "__main__":
    main()
