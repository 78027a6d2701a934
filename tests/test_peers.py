"""What the comparison with peers makes of its figures, and the parts that it hands to all sides."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from atoll.errors import AtollError
from atoll.graph import make_graph
from beside.cases import ALL, chosen
from beside.page import accuracy, generator_table, origins, rounds_table, times, with_table
from beside.parts import part_of, read_parts, write_parts
from peers_accuracy import changed


def block(threads, rounds, cpu, wall, *scores):
    return {"threads": threads, "rounds": rounds, "cpu": cpu, "wall": wall, "scores": scores}


@pytest.fixture
def record():
    """OpenFGL takes 100 ms per round where Atoll takes 10; the first block is to warm up."""
    theirs = [
        block(0, 1, 9.0, 9.0, (0.99, 0.1)),
        block(1, 2, 0.2, 0.2, (0.5, 0.6), (0.7, 0.8)),
        block(2, 2, 0.4, 0.3, (0.9, 0.9)),
    ]
    ours = [block(1, 2, 0.02, 0.02, (0.7, 0.79)), block(2, 2, 0.04, 0.03, (0.7, 0.7))]
    sides = {"openfgl": {"blocks": theirs}, "atoll": {"blocks": ours}}
    return {"federation": "cora-10", "method": "fed-avg", "sides": sides}


def test_one_thread_counts_cpu_time_and_two_the_clock(record):
    assert times(record, "openfgl", 1) == pytest.approx([100.0])
    assert times(record, "openfgl", 2) == pytest.approx([150.0])
    assert times(record, "pyg", 1) == []


def test_accuracy_is_read_where_validation_was_best_on_one_thread(record):
    assert accuracy(record, "openfgl") == 0.8
    assert accuracy(record, "pyg") is None


def test_a_row_has_times_their_ratio_and_accuracies(record):
    _, _, one, two = rounds_table([record])
    assert one == (
        "| cora-10 | fed-avg | 1 | 100.0 (100.0 to 100.0) |  | 10.0 (10.0 to 10.0) | **10.0** |  | "
        "80.0, , 79.0 |"
    )
    assert "**10.0**" in two
    assert two.endswith("|  |")


def test_rows_say_where_accuracies_differ_and_where_the_machine_was_busy(record):
    ours = record["sides"]["atoll"]["blocks"]
    ours[0]["scores"] = [(0.7, 0.7)]
    for side in record["sides"].values():
        for found in side["blocks"]:
            found["wall"] *= 2
    _, _, row = rounds_table([record | {"short": True}])  # none by the clock
    assert "fed-avg (b) (s)" in row
    assert row.endswith("80.0, , 70.0 (d) |")


def test_generators_have_a_table_where_there_are_any(record):
    for side in record["sides"].values():
        side["generator"] = []
    assert generator_table([record]) == []
    record["sides"]["openfgl"]["generator"] = [{"cpu": 2.0, "peak_gb": 3.4}]
    record["sides"]["atoll"]["generator"] = [{"cpu": 0.1, "peak_gb": 0.6}]
    row = generator_table([record])[2]
    assert row == (
        "| cora-10 | 2.000 (2.000 to 2.000) | 0.100 (0.100 to 0.100) | **20.0** | 3.40 | 0.60 |"
    )


def test_a_page_says_what_was_measured_with_what(record):
    for name, side in record["sides"].items():
        side["versions"] = {name: "1.0", "torch": "2.13.0"}
    on = {"python": "3.11.9", "cpu": "a processor", "cores": 2}
    first, last = (record | {"machine": on, "taken": f"2026-01-0{day}"} for day in (1, 2))
    assert origins([first, last]) == [
        "Measured with atoll 1.0, openfgl 1.0, torch 2.13.0; Python 3.11.9, a processor, 2 cores; "
        "2026-01-01 to 2026-01-02."
    ]


def test_a_table_is_written_between_its_marks_alone():
    page = "above\n<!-- peers -->\nold\n<!-- /peers -->\nbelow\n"
    written = with_table(page, "peers", ["| new |"])
    assert written == "above\n<!-- peers -->\n\n| new |\n\n<!-- /peers -->\nbelow\n"
    assert with_table(written, "peers", ["| new |"]) == written
    with pytest.raises(AtollError, match="has no '<!-- roofline -->'"):
        with_table(page, "roofline", [])


def test_cases_are_chosen_by_federation_method_or_pattern():
    assert chosen([]) == ALL
    assert {case.federation for case in chosen(["cora-50"])} == {"cora-50"}
    assert [case.name for case in chosen(["cora-*:fed-avg"])] == [
        "cora-10:fed-avg",
        "cora-50:fed-avg",
    ]
    # The generators of larger federations take the peer minutes per step: by name only.
    assert [case.name for case in chosen(["fed-sage-plus"])] == ["cora-10:fed-sage-plus"]
    assert [case.name for case in chosen(["photo-10:fed-sage-plus"])]
    # What explains another method is no part of the whole.
    assert {case.method for case in chosen(["fed-sage"])} == {"fed-sage"}
    assert "fed-sage" not in {case.method for case in ALL}
    with pytest.raises(AtollError, match="no case is called 'citeseer'"):
        chosen(["citeseer"])


def test_settings_change_for_one_side_or_both():
    (case,) = chosen(["cora-50:fed-sage"])
    order = changed(
        case.order(), ["method.fraction=0.5"], ["dropout=0.0", "config.x=1"], ["decay=0"]
    )
    assert order["options"] == {"fraction": 0.5}
    assert order["arguments"] == {"model": ["graphsage"], "dropout": 0.0}
    assert (order["config"], order["decay"]) == ({"x": 1}, 0)
    assert case.order()["arguments"] == {"model": ["graphsage"]}


def test_parts_come_out_of_their_file_as_they_went_in(tmp_path):
    x = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]], dtype=np.float32))
    graph = make_graph(x, np.array([[0, 1], [1, 2]]), np.array([0, 1, 1]))
    graph = replace(graph, train=np.array([True, False, False]))
    dense = replace(graph, x=x.toarray())
    write_parts(tmp_path / "parts.npz", [graph, dense])
    for found, given in zip(read_parts(tmp_path / "parts.npz"), [graph, dense], strict=True):
        np.testing.assert_array_equal(found.dense, x.toarray())
        assert sparse.issparse(found.x) == sparse.issparse(given.x)
        assert found.classes == 2
        for name in ("edges", "y", "train", "val", "test"):
            np.testing.assert_array_equal(getattr(found, name), getattr(part_of(given), name))
