"""Methods with one mistake each: which law breaks, and whether the words lead to the mistake."""

import pytest
import torch

from atoll.laws import check_laws, subject_of
from atoll.methods import GlobalModel, Reply, client_step
from plugin_files import fed_avgm

FILE = '''"""One mistake each."""

import torch

from atoll.methods import GlobalModel, Reply, client_step, register

SEEN = {}


@register("mixes")
class Mixes(GlobalModel):
    @client_step
    def train(self, client, model):
        w = client.fit(model)
        w = {n: 0.5 * p + 0.5 * p.mean(0, keepdim=True) for n, p in w.items()}
        return Reply(model=w, weight=self.weight(client))


@register("global-random")
class GlobalRandom(GlobalModel):
    @client_step
    def train(self, client, model):
        w = {n: p + 0.001 * torch.randn_like(p) for n, p in client.fit(model).items()}
        return Reply(model=w, weight=self.weight(client))


@register("leaks")
class Leaks(GlobalModel):
    @client_step
    def train(self, client, model):
        return Reply(model=client.fit(model), optimizer=client.state["optimizer"])


@register("sneaks")
class Sneaks(GlobalModel):
    def round(self, fed, server, r):
        fed.ask("tell", expect={"hint": {"x": torch.zeros(24, dtype=torch.float64)}})
        return super().round(fed, server, r)

    @client_step
    def tell(self, client):
        rows = [torch.from_numpy(g.x[[0]].toarray()[0]).double() for g in client.cohort.graphs]
        return Reply(hint={"x": torch.stack(rows)})


@register("forgets")
class Forgets(GlobalModel):
    def round(self, fed, server, r):
        chosen, total = self.train_some(fed, server)
        mean, old = self.averaged(fed, total, chosen), server["model"]
        if r == 1:
            SEEN.clear()
        v = {n: 0.9 * SEEN.get(n, 0) + mean[n] - w for n, w in old.items()}
        SEEN.update(v)
        return {"model": {n: w + v[n] for n, w in old.items()}}


@register("mistyped")
class Mistyped(GlobalModel):
    @client_step
    def train(self, client, model):
        return Reply(model=client.fitt(model))


@register("counts")
class Counts(GlobalModel):
    def round(self, fed, server, r):
        like = {"model": server["model"]}
        replies = fed.ask("train", shared=like, expect=like, weighted=True)
        assert len(replies.clients) == len(fed.clients), "somebody is missing"
        return {"model": {n: p.mean(0) for n, p in replies["model"].items()}}
'''


@pytest.mark.parametrize(
    ("name", "law", "words"),
    [
        ("Mixes", "cohort", "1 at a time differ first after round 1, in the server's 'model/"),
        ("GlobalRandom", "seed", "the same seed differ first after round 1"),
        ("Leaks", "private", "step 'train' of Leaks replies with 'optimizer/"),
        ("Sneaks", "private", "the reply 'hint/x' holds client 0's features"),
        ("Forgets", "resume", "after round 1 differ first after round 2, in the server's 'model/"),
        ("Mistyped", "runs", "mistakes.py, line 62, with AttributeError: 'Client' object has no"),
        ("Counts", "bad replies", "AssertionError: somebody is missing"),
    ],
)
def test_a_mistake_breaks_its_law_and_is_said(tmp_path, name, law, words):
    (tmp_path / "mistakes.py").write_text(FILE)
    found = check_laws(subject_of(f"{tmp_path / 'mistakes.py'}:{name}"))
    broken = {f.law.name: f.broken for f in found if f.broken}
    assert words in broken[law]


def test_the_command_exits_with_1_for_a_broken_law_only(here, tmp_path):
    (tmp_path / "mistakes.py").write_text(FILE)
    broken = here("laws", "./mistakes.py:Mistyped")
    assert broken.returncode == 1
    assert "Look for" in broken.stdout
    fed_avgm(tmp_path)
    kept = here("laws", "./mine.py:FedAvgM")
    assert (kept.returncode, "9 laws kept, 0 broken" in kept.stdout) == (0, True), kept.stdout


class Personal(GlobalModel):
    """A client's own noise differs with its place: what the law of positions is for."""

    @client_step
    def train(self, client, model):
        w = client.fit(model)
        place = torch.arange(client.k, dtype=client.dtype)
        w = {n: p + 0.01 * place.view(-1, *[1] * (p.dim() - 1)) for n, p in w.items()}
        client.state["model"] = w
        return Reply(model=w, weight=self.weight(client))


def test_a_place_used_as_a_number_breaks_the_law_of_positions():
    broken = {f.law.name: f.broken for f in check_laws(subject_of(Personal)) if f.broken}
    assert "in another order differ first after round 1, in client" in broken["position"]
