"""The made-up fraud table has what it is made for: a graph that helps, banks that know little."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from atoll.data import Tables
from atoll.ops.propagation import operator_of
from fraud_table import write_fraud_table


def test_the_graph_helps_and_so_do_the_other_banks(tmp_path):
    made = write_fraud_table(tmp_path)
    graph = Tables(
        nodes=str(made.nodes),
        edges=str(made.edges),
        id="account",
        label="fraud",
        owner="bank",
        source="from",
        target="to",
        weight="amount",
        weight_scale="log",
        missing="median",
        standardise=True,
    ).load()
    assert graph.nodes == 3000
    assert made.fraudulent == 75
    mean = operator_of(graph, "mean")
    sent = graph.weighted_adjacency.sum(axis=1)[:, None]
    around = np.concatenate([graph.x, mean @ graph.x, mean @ (mean @ graph.x), sent], axis=1)
    banks = [holding.nodes for holding in graph.holdings]
    figures = []
    for split in range(5):
        train = np.random.default_rng([split, 1]).random(graph.nodes) < 0.4
        figures.append(
            [
                scored(features, graph.y, train, banks, alone)
                for features in (graph.x, around)
                for alone in (True, False)
            ]
        )
    alone, together, alone_around, together_around = np.mean(figures, axis=0)
    assert alone < together < together_around
    assert alone_around < together_around - 0.03


def scored(x, y, train, banks, alone):
    """PR-AUC of a balanced logistic regression, mean over banks."""
    results = []
    for bank in banks:
        rows = bank[train[bank]] if alone else np.flatnonzero(train)
        model = LogisticRegression(class_weight="balanced", max_iter=1000).fit(x[rows], y[rows])
        test = bank[~train[bank]]
        results.append(average_precision_score(y[test], model.predict_proba(x[test])[:, 1]))
    return np.mean(results)
