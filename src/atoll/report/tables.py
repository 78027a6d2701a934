"""Tables of results for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from atoll.experiment.result import Result
from atoll.partition.statistics import PartitionStatistics
from atoll.tasks.metrics import LOSS, better

_MOST_ROWS = 60


def percent(value: float | None) -> str:
    return "-" if value is None or value != value else f"{100 * value:.2f}"


def score(metric: str, value: float | None) -> str:
    """In percent, but for a loss."""
    if metric != LOSS:
        return percent(value)
    return "-" if value is None or value != value else f"{value:.4f}"


def size(count: int) -> str:
    """A number of bytes for people."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def comparison(results: Sequence[Result]) -> Table:
    """One row per method: test score as mean and std over clients, at the best round."""
    first, clients = results[0].experiment, max(result.clients for result in results)
    metric = results[0].metric
    worst = max if metric == LOSS else min
    table = Table(
        title=f"{first.data.registered_name}, {clients} clients "
        f"({first.partition.registered_name}), {first.run.rounds} rounds, seed {first.run.seed}",
        caption=f"{'' if metric == LOSS else 'percent, '}mean over clients, at the round with the "
        f"best mean validation score",
    )
    table.add_column("method")
    noised = any("epsilon" in result.figures for result in results)
    clustered = any("nmi" in result.figures for result in results)
    for heading in (f"test {metric}", "std over clients", "worst client", "best round",
                    "ms per round", "sent up", "sent down", *["epsilon"] * noised,
                    *["NMI of clusters", "ARI"] * clustered):  # fmt: skip
        table.add_column(heading, justify="right")
    for result in results:
        known = result.test_scores()
        table.add_row(
            result.experiment.method.registered_name,
            score(metric, result.test_score),
            score(metric, result.std_over_clients()) if len(known) > 1 else "-",
            score(metric, worst(known, default=None)),
            str(result.best_round),
            f"{1000 * result.seconds_per_round:.1f}",
            size(result.bytes_up),
            size(result.bytes_down),
            *[_epsilon(result)] * noised,
            *[_agreement(result, name) for name in ("nmi", "ari") if clustered],
        )
    return table


def _epsilon(result: Result) -> str:
    """What the whole run has spent; without noise there is no bound."""
    return f"{result.figures['epsilon']:.3f}" if "epsilon" in result.figures else "none"


def _agreement(result: Result, name: str) -> str:
    value = result.figures.get(name, float("nan"))
    return "-" if value != value else f"{value:.3f}"


def partition_table(cut: PartitionStatistics) -> Table:
    """One row per client, then the whole graph."""
    facts = cut.summary()
    network = facts["connectivity"]
    connected = "not connected" if network is None else f"lambda_max(B_N L^+) = {network:.3g}"
    edges = f"{'weighted ' * facts['weighted']}{'directed ' * facts['directed']}edges"
    table = Table(
        title=f"{cut.whole.name}: {facts['nodes']} nodes, {facts['edges']} {edges}, "
        f"{facts['features']} features, {facts['classes']} classes",
        caption=f"{facts['anchors']} nodes held by several clients, {facts['missing_edges']} edges "
        f"held by none; heterogeneity of labels {facts['heterogeneity']:.3f}; network of clients: "
        f"{connected}",
    )
    numbers = ("nodes", "edges", "classes", "labelled", "anchors", "clustering", "missing edges")
    named = any(not row["name"].startswith("client ") for row in facts["per_client"])
    columns = ("client", *(("name",) if named else ()), *numbers)
    for column in columns:
        table.add_column(column, justify="right")
    for row in facts["per_client"][:_MOST_ROWS]:
        cells = [row[column.replace(" ", "_")] for column in columns]
        table.add_row(*(f"{c:.3f}" if isinstance(c, float) else str(c) for c in cells))
    if len(facts["per_client"]) > _MOST_ROWS:
        more = len(facts["per_client"]) - _MOST_ROWS
        table.add_row(f"{more} more", *["..."] * (len(columns) - 1))
    table.add_section()
    whole = [facts[column.replace(" ", "_")] for column in numbers if column != "labelled"]
    whole.insert(3, int(cut.whole.train.sum()))
    cells = [f"{c:.3f}" if isinstance(c, float) else str(c) for c in whole]
    table.add_row("whole", *([""] if named else []), *cells)
    return table


def joining(alone: Result, together: Result) -> str:
    """For how many clients joining was better than training alone."""
    column = f"test_{alone.metric}"
    own = {c["client"]: c[column] for c in alone.per_client}
    pairs: list[tuple[float, float]] = [
        (own[c["client"]], c[column])
        for c in together.per_client
        if own.get(c["client"]) is not None and c[column] is not None
    ]
    more = sum(better(alone.metric, joined, single) for single, joined in pairs)
    less = sum(better(alone.metric, single, joined) for single, joined in pairs)
    name = together.experiment.method.registered_name
    equal = f", {len(pairs) - more - less} the same" if more + less < len(pairs) else ""
    return (
        f"Joining ({name}) was better than training alone for {more} of {len(pairs)} clients"
        f" ({less} worse{equal})."
    )
