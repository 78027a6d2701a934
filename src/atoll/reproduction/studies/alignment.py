"""Embeddings that clients train together, compared with those they train alone."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from atoll.errors import AtollError
from atoll.experiment.config import Experiment
from atoll.experiment.runner import run_experiment
from atoll.methods.ppfl.downstream import Classifier
from atoll.methods.ppfl.embedding_alignment import EmbeddingAlignment
from atoll.reproduction.studies.base import Findings, Study, studies


@studies.register("alignment")
class Alignment(Study):
    """PPFL-GNN's tables: the same clients with and without exchange, evaluated by MLP and SVC.

    Both train for the same number of rounds from the same start. Figures, in percent, for each
    classifier ``c``: ``c_loc`` and ``c_fed`` (means over clients), ``c_loc_1`` to ``c_fed_4`` (each
    client's), ``c_gain`` (the difference of the means), ``c_gain_1`` to ``c_gain_4`` and
    ``c_global`` (the differences of all clients added up, the paper's GLOBAL); and the final
    alignment ``precision_1``, ``precision_5`` and ``precision_10``. With one client there is
    nothing to exchange: ``c_loc`` is the full graph.

    The paper's "locally trained" embeddings may also be those of iteration 1, before anything was
    exchanged, where its Figures 3 to 6 begin: ``c_first`` and ``c_first_1`` to ``c_first_4``, with
    ``c_rise`` and ``c_rise_global`` for FED's gain over them. FED has then trained for longer.
    """

    trains = False
    caption = "Micro-F1 in percent, cross-validated at each client"

    def findings(self, experiment: Experiment) -> Findings:
        method = _aligning(experiment)
        alone, _ = _evaluated(experiment, method, exchange=False)
        figures = _scores(alone, "loc", method.classifiers)
        if len(alone) > 1:
            together, precision = _evaluated(experiment, method, exchange=True)
            figures |= _scores(together, "fed", method.classifiers) | precision
            figures |= _risen(figures, _first(experiment, method), method.classifiers)
            for c in method.classifiers:
                gain = figures[f"{c}_fed"] - figures[f"{c}_loc"]
                figures |= {f"{c}_gain": gain, f"{c}_global": gain * len(alone)}
                figures |= {
                    f"{c}_gain_{k}": figures[f"{c}_fed_{k}"] - figures[f"{c}_loc_{k}"]
                    for k in range(1, len(alone) + 1)
                }
        return Findings(figures)


@studies.register("first-iteration")
class FirstIteration(Study):
    """The same without the clients that train alone for as long, which costs half as much.

    Figures: ``c_first``, ``c_first_1`` and so on, ``c_fed``, ``c_fed_1`` and so on, ``c_rise``,
    ``c_rise_global`` and the final alignment precisions, as the study ``alignment`` has them. With
    one client ``c_first`` alone, the full graph after one iteration.
    """

    trains = False
    caption = "Micro-F1 in percent, cross-validated at each client"

    def findings(self, experiment: Experiment) -> Findings:
        method = _aligning(experiment)
        first = _first(experiment, method)
        if len(first) == 1:
            return Findings(_scores(first, "first", method.classifiers))
        together, precision = _evaluated(experiment, method, exchange=True)
        figures = _scores(together, "fed", method.classifiers) | precision
        return Findings(figures | _risen(figures, first, method.classifiers))


def _aligning(experiment: Experiment) -> EmbeddingAlignment:
    method = experiment.method
    if not isinstance(method, EmbeddingAlignment):
        raise AtollError(
            f"{method.registered_name} aligns no embeddings; choose ppfl-deepwalk or ppfl-gat."
        )
    return method


def _first(experiment: Experiment, method: EmbeddingAlignment) -> list[dict[str, Any]]:
    """Each client's scores after one iteration, in which nothing has been exchanged yet."""
    begun = replace(experiment, run=replace(experiment.run, rounds=1))
    return _evaluated(begun, method, exchange=False)[0]


def _risen(
    figures: dict[str, float], first: list[dict[str, Any]], classifiers: tuple[Classifier, ...]
) -> dict[str, float]:
    """The first iteration's scores, and what FED has gained over them."""
    found = _scores(first, "first", classifiers)
    for c in classifiers:
        rise = figures[f"{c}_fed"] - found[f"{c}_first"]
        found |= {f"{c}_rise": rise, f"{c}_rise_global": rise * len(first)}
    return found


def _evaluated(
    experiment: Experiment, method: EmbeddingAlignment, exchange: bool
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Each client's scores after a run, and how well the spaces were aligned."""
    chosen = replace(experiment, method=replace(method, exchange=exchange))
    with tempfile.TemporaryDirectory() as scratch:
        result = run_experiment(chosen, Path(scratch) / "run")
    agreed = {n: 100 * v for n, v in result.figures.items() if n.startswith("precision_")}
    return result.per_client, agreed


def _scores(
    clients: list[dict[str, Any]], which: str, classifiers: tuple[Classifier, ...]
) -> dict[str, float]:
    found = {}
    for c in classifiers:
        scores = [100 * client[c] for client in clients]
        found[f"{c}_{which}"] = sum(scores) / len(scores)
        found |= {f"{c}_{which}_{k}": score for k, score in enumerate(scores, start=1)}
    return found
