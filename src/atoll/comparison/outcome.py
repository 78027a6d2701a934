"""What a comparison found: tables over methods, sites and runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import polars

from atoll.comparison.plan import ALONE, Plan
from atoll.comparison.statistics import FEWEST_SEEDS, Difference, difference, mean, std
from atoll.errors import AtollError
from atoll.experiment.result import Result
from atoll.notebook import html_table

Which = Literal["best", "all"]
_MOST_ROWS = 30
_DIFFERENCE = {
    "difference": polars.Float64,
    "low": polars.Float64,
    "high": polars.Float64,
    "p": polars.Float64,
}


@dataclass(frozen=True)
class Kept:
    """What is read of one run: its scores over clients and of each."""

    label: str
    seed: int
    metric: str
    pooled: bool
    test: float
    val: float
    clients: dict[int, float | None]
    nodes: dict[int, int]
    summary: dict[str, Any]


def kept(label: str, result: Result) -> Kept:
    """A finished run without its history and parameters."""
    score = f"test_{result.metric}"
    return Kept(
        label=label,
        seed=result.experiment.run.seed,
        metric=result.metric,
        pooled=result.experiment.method.pooled,
        test=result.test_score,
        val=result.val_score,
        clients={c["client"]: c[score] for c in result.per_client},
        nodes={c["client"]: c["nodes"] for c in result.per_client},
        summary={"label": label} | result.summary(),
    )


@dataclass(frozen=True, repr=False)
class Comparison:
    """Methods over seeds. Scores are fractions; differences are to training alone (``local``).

    ``methods`` has one row per method: mean and std over seeds, and the paired difference with its
    95 % interval and p. ``sites`` has one row per joined method and site: alone, joined, the
    difference and its interval over seeds, and the verdict (``join``, ``stay``, ``unclear``).
    ``runs`` has one row per method and seed. ``best`` is the joined method with the best mean
    validation score, so that no test node has a say in the choice.
    """

    plan: Plan
    metric: str
    kept: tuple[Kept, ...]
    out: Path

    @cached_property
    def runs(self) -> polars.DataFrame:
        rows = [
            {
                "method": run.label,
                "seed": run.seed,
                "test": _known(run.test),
                "val": _known(run.val),
                "best_round": run.summary["best_round"],
                "seconds_per_round": run.summary["seconds_per_round"],
                "bytes_up": run.summary["bytes_up"],
                "bytes_down": run.summary["bytes_down"],
                "run_dir": run.summary["run_dir"],
            }
            for run in self.kept
        ]
        return polars.DataFrame(rows, schema_overrides={"test": polars.Float64})

    @cached_property
    def methods(self) -> polars.DataFrame:
        return polars.DataFrame(
            [self._method(label) for label in self.plan.methods], schema_overrides=_DIFFERENCE
        )

    @cached_property
    def sites(self) -> polars.DataFrame:
        rows = [row for label in self.joined for row in self._sites(label)]
        schema = {
            "method": polars.String,
            "client": polars.Int64,
            "site": polars.String,
            "nodes": polars.Int64,
            "seeds": polars.Int64,
            "alone": polars.Float64,
            "joined": polars.Float64,
            **_DIFFERENCE,
            "verdict": polars.String,
        }
        return polars.DataFrame(rows, schema=schema)

    @property
    def joined(self) -> list[str]:
        """The methods that sites can join, where there is training alone to hold them against."""
        if not self._of(ALONE):
            return []
        pooled = {run.label for run in self.kept if run.pooled}
        return [label for label in self.plan.methods if label not in {ALONE, *pooled}]

    @property
    def less_is_better(self) -> bool:
        return self.metric == "loss"

    @property
    def scale(self) -> float:
        """What numbers are multiplied by for people: scores are percent, losses are not."""
        return 1.0 if self.less_is_better else 100.0

    @cached_property
    def best(self) -> str | None:
        """The joined method with the best mean validation score."""
        vals = {label: mean([r.val for r in self._of(label).values()]) for label in self.joined}
        choose = min if self.less_is_better else max
        return choose(vals, key=lambda label: vals[label]) if vals else None

    def shown(self, which: Which) -> list[str]:
        """The methods whose sites are shown."""
        return self.joined if which == "all" else [self.best] if self.best else []

    def verdicts(self, label: str) -> dict[str, int]:
        """How many sites should join, stay alone, or can't be told."""
        found = self.sites.filter(polars.col("method") == label)["verdict"].to_list()
        return {verdict: found.count(verdict) for verdict in ("join", "stay", "unclear")}

    def counted(self, label: str) -> str:
        """How many sites gained and lost by joining."""
        count = self.verdicts(label)
        return (
            f"Joining with {label}: {count['join']} of {sum(count.values())} sites gained, "
            f"{count['stay']} lost, {count['unclear']} unclear."
        )

    def cautions(self) -> list[str]:
        """What stands in the way of a verdict, if anything."""
        said = []
        if len(self.plan.seeds) < FEWEST_SEEDS:
            said.append(
                f"{len(self.plan.seeds)} is too few seeds for intervals and verdicts; take at "
                f"least {FEWEST_SEEDS}, better 5 (--seeds 5)."
            )
        if not self._of(ALONE):
            said.append(
                f"Without the method '{ALONE}' there is nothing to hold the others against."
            )
        if self.plan.first.split.kind == "public":
            said.append(
                "Training and test nodes are those of the data with every seed, so that intervals "
                "hold for these test nodes and show what training alone varies."
            )
        sizes: dict[int, set[int]] = {}
        for run in self.kept:
            for client in range(0 if run.pooled else len(self.plan.sites)):
                sizes.setdefault(client, set()).add(run.nodes.get(client, 0))
        if any(len(different) > 1 for different in sizes.values()):
            said.append(
                "This partition gives clients other nodes with every seed, so that a site is not "
                "the same site throughout: read its row as that of any such site."
            )
        return said

    def summary(self) -> dict[str, Any]:
        """All of it, ready for JSON; the same shape whatever was compared."""
        first = self.plan.first
        return {
            "data": first.data.registered_name,
            "partition": first.partition.registered_name,
            "rounds": first.run.rounds,
            "metric": self.metric,
            "seeds": list(self.plan.seeds),
            "site_names": list(self.plan.sites),
            "best": self.best,
            "methods": self.methods.to_dicts(),
            "sites": self.sites.to_dicts(),
            "verdicts": {label: self.verdicts(label) for label in self.joined},
            "cautions": self.cautions(),
            "runs": [run.summary for run in self.kept],
            "out": str(self.out),
        }

    def __repr__(self) -> str:
        lines = [
            f"Comparison of {len(self.plan.methods)} methods over {len(self.plan.seeds)} seeds, "
            f"test {self.metric}{'' if self.less_is_better else ' in percent'}:"
        ]
        for row in self.methods.iter_rows(named=True):
            beside = "" if row["difference"] is None else f"  {self._gap(row)} to {ALONE}"
            lines.append(f"  {row['method']}: {self.shown_score(row['mean'], row['std'])}{beside}")
        if self.best is None:
            return "\n".join([*lines, *self.cautions()])
        lines.append(f"Sites, alone and joined with {self.best}:")
        for row in self.sites.filter(polars.col("method") == self.best).iter_rows(named=True):
            pair = f"{self.shown_score(row['alone'])} -> {self.shown_score(row['joined'])}"
            lines.append(f"  {row['site']}: {pair}  {self._gap(row)}  {row['verdict']}")
        return "\n".join([*lines, self.counted(self.best), *self.cautions(), f"kept in {self.out}"])

    def _repr_html_(self) -> str:
        """The methods, then the sites of the best joined one."""
        unit = "" if self.less_is_better else ", percent"
        methods = [
            (row["method"], self.shown_score(row["mean"], row["std"]), self._gap(row))
            for row in self.methods.iter_rows(named=True)
        ]
        head = ("method", f"test {self.metric}{unit}", f"difference to {ALONE}")
        title = f"{len(self.plan.methods)} methods over {len(self.plan.seeds)} seeds"
        parts = [html_table(title, head, methods)]
        if self.best is not None:
            rows = self.sites.filter(polars.col("method") == self.best).head(_MOST_ROWS)
            sites = [
                (r["site"], self.shown_score(r["alone"]), self.shown_score(r["joined"]),
                 self._gap(r), r["verdict"])
                for r in rows.iter_rows(named=True)
            ]  # fmt: skip
            columns = ("site", "alone", "joined", "difference", "verdict")
            parts.append(html_table(self.counted(self.best), columns, sites))
        return "".join(parts + [html_table(said, (), ()) for said in self.cautions()])

    def shown_score(self, middle: float | None, spread: float | None = None) -> str:
        """A mean, and its std if there is one, for people."""
        if middle is None:
            return "-"
        beside = "" if spread is None else f" ± {self.scale * spread:.2f}"
        return f"{self.scale * middle:.2f}{beside}"

    def _gap(self, row: dict[str, Any]) -> str:
        """``+1.20 (+0.80 to +1.60, p = 0.01)``, as far as it is known."""
        gap, low, high = (self.signed(row[name]) for name in ("difference", "low", "high"))
        inside = [] if row["low"] is None else [f"{low} to {high}"]
        inside += [] if row["p"] is None else [f"p = {row['p']:.2g}"]
        return gap + (f" ({', '.join(inside)})" if inside else "")

    def signed(self, value: float | None) -> str:
        """A difference for people."""
        return "-" if value is None else f"{self.scale * value:+.2f}"

    def _of(self, label: str) -> dict[int, Kept]:
        return {run.seed: run for run in self.kept if run.label == label}

    def _method(self, label: str) -> dict[str, Any]:
        own, alone = self._of(label), self._of(ALONE)
        scores = [run.test for run in own.values()]
        gaps = [run.test - alone[seed].test for seed, run in own.items() if seed in alone]
        # Local against itself says nothing.
        against = difference([gap for gap in gaps if gap == gap] if label != ALONE else [])
        return {
            "method": label,
            "seeds": len(scores),
            "mean": _known(mean(scores)),
            "std": _known(std(scores)) if len(scores) > 1 else None,
            **_columns(against),
        }

    def _sites(self, label: str) -> Iterator[dict[str, Any]]:
        own, alone = self._of(label), self._of(ALONE)
        for client, name in enumerate(self.plan.sites):
            pairs = [
                (single, together)
                for seed in self.plan.seeds
                if (single := alone[seed].clients.get(client)) is not None
                and (together := own[seed].clients.get(client)) is not None
            ]
            found = difference([together - single for single, together in pairs])
            yield {
                "method": label,
                "client": client,
                "site": name,
                "nodes": alone[self.plan.seeds[0]].nodes.get(client),
                "seeds": len(pairs),
                "alone": _known(mean([single for single, _ in pairs])),
                "joined": _known(mean([together for _, together in pairs])),
                **_columns(found),
                "verdict": found.verdict(self.less_is_better),
            }


def concluded(plan: Plan, runs: Iterable[Kept], out: Path) -> Comparison:
    """A comparison whose runs are all complete."""
    done = tuple(runs)
    metrics = sorted({run.metric for run in done})
    if len(metrics) > 1:
        raise AtollError(
            f"the runs are scored by {' and '.join(metrics)}; choose one measure for all."
        )
    return Comparison(plan, metrics[0], done, out)


def _columns(found: Difference) -> dict[str, float | None]:
    return {"difference": found.mean, "low": found.low, "high": found.high, "p": found.p}


def _known(value: float) -> float | None:
    return None if value != value else value
