"""What ``atoll audit`` shows, and the page about every method."""

import json
from pathlib import Path

from atoll.experiment.audit import audit_method
from atoll.experiment.choices import choose
from atoll.report.audit import sentences

PAGE = Path(__file__).parents[2] / "docs" / "what-leaves-a-site.md"


def said_of(name):
    return sentences(audit_method(choose(method=name), rounds=3, small=True))


def test_the_page_is_current(here, tmp_path):
    """Write it anew with: atoll audit --page docs/what-leaves-a-site.md"""
    assert here("audit", "--page", "page.md").returncode == 0
    assert (tmp_path / "page.md").read_text() == PAGE.read_text()


def test_verdicts_are_sentences():
    assert said_of("fed-avg")[0].startswith("Sums suffice")
    assert said_of("centralized")[0].startswith("All data is pooled")
    assert said_of("local")[0] == "Nothing but scores leaves a site."
    assert said_of("gcfl")[0] == (
        "Sums do not suffice: the server sees every site's model, weight (in: train)."
    )
    assert any(line.startswith("Anchors are needed") for line in said_of("fed-gala"))
    assert any(line.startswith("Its later phases are brought") for line in said_of("fed-gala"))
    assert any(line.startswith("The network is needed") for line in said_of("gfl-appnp"))


def test_before_a_run_and_after_it(here, tmp_path):
    before = here("audit", "--method", "fed-prox", "--data", "patients", "--clients", "3")
    assert before.returncode == 0, before.stderr
    assert "a trial on your data, 3 clients, 3 rounds" in before.stdout
    assert list(tmp_path.iterdir()) == []
    here("run", "--method", "fed-prox", "--data", "patients", "--clients", "3", "--rounds", "3",
         "--out", "run")  # fmt: skip
    after = here("audit", "run")
    table = [line for line in before.stdout.split("\n") if line.startswith(("leaves", "comes"))]
    assert table == [line for line in after.stdout.split("\n") if line in table]
    assert json.loads(here("audit", "run", "--json").stdout)["sums_suffice"] is True


def test_a_recipe_is_audited_on_its_data(here, tmp_path):
    (tmp_path / "r.toml").write_text(
        '[data]\nname = "patients"\n[method]\nname = "fed-avg"\n[partition]\nclients = 2\n'
    )
    facts = json.loads(here("audit", "r.toml", "--json").stdout)
    assert (facts["method"], facts["source"], facts["clients"]) == ("fed-avg", "trial", 2)


def test_what_can_t_be_audited_is_one_sentence(here):
    for arguments, sentence in (
        (["nowhere"], "is no run directory"),
        (["nowhere", "--method", "local"], "--method means nothing"),
        (["--method", "fed-avgg"], "did you mean 'fed-avg'?"),
        (["--page", "p.md", "--method", "local"], "give it alone"),
        (["--rounds", "0"], "run.rounds is 0"),
    ):
        done = here("audit", *arguments)
        assert done.returncode == 2
        assert sentence in done.stderr
        assert len(done.stderr.strip().split("\n")) == 1
