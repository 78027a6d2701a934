import pytest
import torch

from atoll.leaves import Ragged, Rows
from atoll.tree import (
    copy,
    flat,
    flatten,
    kind,
    nested,
    put,
    replicated,
    sq_dist,
    stack,
    take,
    under,
    unflatten,
)


def example():
    return {
        "model/w": torch.arange(6.0).view(3, 2),
        "rows/h": Ragged(torch.arange(4.0)[:, None], (1, 0, 3)),
    }


def test_kind_is_the_first_part_of_a_name():
    assert kind("model/conv1.weight") == "model"
    assert kind("weight") == "weight"


def test_take_and_stack_are_inverse():
    tree = example()
    parts = [take(tree, [0, 1]), take(tree, [2])]
    joined = stack(parts)
    assert torch.equal(joined["model/w"], tree["model/w"])
    assert joined["rows/h"].sizes == (1, 0, 3)
    assert torch.equal(joined["rows/h"].values, tree["rows/h"].values)


def test_take_of_a_run_is_a_view_and_of_a_choice_a_copy():
    tree = example()
    assert take(tree, [1, 2])["model/w"].data_ptr() == tree["model/w"][1].data_ptr()
    assert take(tree, [2, 0])["model/w"].tolist() == [[4, 5], [0, 1]]


def test_put_replaces_some_clients_rows():
    new = {"model/w": torch.full((2, 2), 9.0), "rows/h": Ragged(torch.full((1, 1), 7.0), (0, 1))}
    tree = put(example(), [2, 0], new, 3)
    assert tree["model/w"].tolist() == [[9, 9], [2, 3], [9, 9]]
    assert tree["rows/h"].sizes == (1, 0, 0)
    assert tree["rows/h"].values.tolist() == [[7.0]]


def test_put_of_an_updated_view_changes_nothing_else():
    tree = example()
    part = take(tree, [0, 1])
    part["model/w"] += 1
    assert put(tree, [0, 1], part, 3)["model/w"].tolist() == [[1, 2], [3, 4], [4, 5]]


def test_put_refuses_a_state_with_other_names():
    with pytest.raises(ValueError, match="model/w"):
        put(example(), [0], {"rows/h": Ragged(torch.zeros(0, 1), (0,))}, 3)


def test_flatten_and_unflatten_are_inverse():
    tree = unflatten(flatten(example()))
    assert set(tree) == set(example())
    assert tree["rows/h"].sizes == (1, 0, 3)


def test_copies_of_a_model_are_each_clients_own():
    model = {"w": torch.tensor([1.0, 2.0])}
    copies = replicated(model, 3)
    copies["w"][0] += 1
    assert copies["w"].tolist() == [[2, 3], [1, 2], [1, 2]]
    assert model["w"].tolist() == [1, 2]


def test_copy_shares_nothing():
    tree = example()
    other = copy(tree)
    other["model/w"] += 1
    assert tree["model/w"][0, 0] == 0


def test_under_refuses_ragged_leaves():
    with pytest.raises(TypeError, match="rows/h"):
        under(example(), "rows")


def test_kinds_and_the_flat_tree_are_inverse():
    kinds = {"model": {"conv1.weight": 1, "b": 2}, "prox": {"mu": 3}}
    assert flat(kinds) == {"model/conv1.weight": 1, "model/b": 2, "prox/mu": 3}
    assert nested(flat(kinds)) == kinds
    assert flat(flat(kinds)) == flat(kinds)
    assert flat({"model": {}}) == {}


def rows_of_a_table():
    at = Ragged(torch.tensor([0, 2, 1], dtype=torch.int32), (2, 1))
    return Rows(at, Ragged(torch.arange(6.0).view(3, 2), (2, 1)))


def test_rows_of_a_table_survive_the_wire():
    back = unflatten(flatten({"jacobian/m": rows_of_a_table()}))["jacobian/m"]
    assert back.at.sizes == back.rows.sizes == (2, 1)
    assert torch.equal(back.rows.values, rows_of_a_table().rows.values)
    assert back.take([1]).at.values.tolist() == [1]
    assert stack([{"t": back.take([0])}, {"t": back.take([1])}])["t"].at.sizes == (2, 1)
    assert copy({"t": back})["t"].rows.values is not back.rows.values


@pytest.mark.parametrize(
    "change",
    [
        {"a#sizes": torch.tensor([1, 1])},
        {"a#sizes": torch.tensor([-1, 4])},
        {"a#sizes": torch.tensor([[3]])},
        {"a#sizes": torch.tensor([1.0, 2.0])},
        {"b#sizes": torch.tensor([1])},
        {"c#values": torch.zeros(1)},
        {"d#strange": torch.zeros(1)},
    ],
)
def test_tensors_that_make_no_leaf_are_refused(change):
    plain = flatten({"a": Ragged(torch.zeros(3, 2), (1, 2))})
    with pytest.raises(ValueError, match=r"sizes|complete|without a leaf"):
        unflatten(plain | change)


def test_a_leaf_must_be_of_one_kind_for_all():
    ragged = {"a": Ragged(torch.zeros(1), (1,))}
    with pytest.raises(TypeError, match="of one kind"):
        stack([ragged, {"a": torch.zeros(1, 1)}])


def test_the_squared_distance_can_be_differentiated_twice():
    rng = torch.Generator().manual_seed(0)
    a = torch.randn(3, 2, 4, generator=rng, dtype=torch.float64, requires_grad=True)
    b = torch.randn(3, 2, 4, generator=rng, dtype=torch.float64, requires_grad=True)
    found = sq_dist({"w": a}, {"w": b})
    torch.testing.assert_close(found, (a - b).square().sum((1, 2)))
    assert torch.autograd.gradcheck(lambda a, b: sq_dist({"w": a}, {"w": b}), (a, b))
    assert torch.autograd.gradgradcheck(lambda a, b: sq_dist({"w": a}, {"w": b}), (a, b))
