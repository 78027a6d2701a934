"""Folders that people wrote by hand, in their own words: [columns] and [split] of party.toml."""

from dataclasses import replace

import numpy as np
import pytest
from complaints import complaint
from party_examples import same

from atoll.data.parties import Parties, load_party
from atoll.data.split import Split
from atoll.experiment.config import resolve
from atoll.experiment.runner import load_parties

GERMAN = """name = "Bank Ö/1"
class_names = ["nein", "ja"]

[categories]
land = ["AT", "DE"]

[columns]
nodes = "konten.csv"
edges = "überweisungen.csv"
id = "konto"
label = "betrug"
source = "von"
target = "an"
weight = "betrag"
separator = ";"
decimal = ","
missing = "mean"
standardise = true
features = { turnover = "umsatz", land = "land" }

[split]
train = 0.5
val = 0.25
test = 0.25
seed = 7
"""
KONTEN = "konto;betrug;umsatz;land;notiz\n" + "".join(
    f"k{i};{('nein', 'ja')[i % 2]};{'' if i == 3 else f'{i},5'};{('AT', 'DE')[i // 4]};frei {i}\n"
    for i in range(8)
)
PLAIN = """class_names = ["nein", "ja"]
categories.land = ["AT", "DE"]
columns = { missing = "mean", standardise = true, weight = "weight", split = "split" }
"""


@pytest.fixture
def banks(tmp_path, monkeypatch):
    """Two banks: one with tables and words of its own, one with the usual ones."""
    monkeypatch.chdir(tmp_path)
    own, usual = tmp_path / "banks" / "a", tmp_path / "banks" / "b"
    own.mkdir(parents=True)
    usual.mkdir()
    (own / "party.toml").write_text(GERMAN, encoding="utf-8")
    (own / "konten.csv").write_text(KONTEN, encoding="utf-8")
    (own / "überweisungen.csv").write_text("von;an;betrag\nk0;k1;1.000,5\nk2;k2;3\n")
    (usual / "party.toml").write_text(PLAIN)
    rows = ["m1,nein,1,AT,train", "m2,ja,2,AT,val", "m3,nein,9,AT,test", "m4,ja,3,DE,train"]
    (usual / "nodes.csv").write_text("id,label,turnover,land,split\n" + "\n".join(rows) + "\n")
    (usual / "edges.csv").write_text("source,target,weight\nm1,m2,2\n")
    return tmp_path / "banks"


def test_a_site_reads_its_own_words(banks):
    graph = load_party(banks / "a")
    assert graph.name == "Bank Ö/1"
    assert graph.feature_names == ("turnover", "land=AT", "land=DE")
    assert graph.class_names == ("nein", "ja")
    assert graph.weights.tolist() == [1000.5, 1000.5]  # both ways; the loop is dropped
    assert [int(mask.sum()) for mask in (graph.train, graph.val, graph.test)] == [4, 2, 2]
    # Mean and deviation of its own training nodes; a gap gets their mean, which is 0 then.
    raw = np.array([i + 0.5 for i in range(8)])
    raw[3] = np.nan
    known = raw[graph.train]
    mean = known[~np.isnan(known)].mean()
    filled = np.where(np.isnan(raw), mean, raw)
    deviation = filled[graph.train].std()
    np.testing.assert_allclose(graph.x[:, 0], (filled - mean) / deviation, rtol=1e-6)


def test_its_split_is_a_matter_of_its_seed(banks):
    first = load_party(banks / "a")
    same(first, load_party(banks / "a"))
    (banks / "a" / "party.toml").write_text(GERMAN.replace("seed = 7", "seed = 8"))
    assert (load_party(banks / "a").train != first.train).any()


def test_alone_and_together_are_the_same(banks):
    experiment = resolve(
        {
            "data": {"name": "parties", "folder": str(banks)},
            "partition": {"name": "natural"},
            "split": {"kind": "public"},
        }
    )
    together = load_parties(experiment).graphs
    for folder, graph in zip(("a", "b"), together, strict=True):
        same(load_party(banks / folder), graph)


def test_a_split_of_the_whole_is_what_parties_are_fitted_to(banks):
    """Without a split of their own, scales and fillings come from the training nodes drawn."""
    for folder, text in (("a", GERMAN[: GERMAN.index("[split]")]), ("b", PLAIN)):
        (banks / folder / "party.toml").write_text(text.replace(', split = "split"', ""))
    table = banks / "b" / "nodes.csv"
    table.write_text("\n".join(r.rpartition(",")[0] for r in table.read_text().split()) + "\n")
    data = Parties(folder=str(banks))
    whole = Split(train=0.5, val=0.25, test=0.25).apply(data.load(), np.random.default_rng(1))
    north = data.fitted(whole).held(whole.holdings[0])
    np.testing.assert_allclose(north.x[north.train, 0].mean(), 0, atol=1e-6)
    np.testing.assert_allclose(north.x[north.train, 0].std(), 1, atol=1e-6)
    assert abs(data.load().held(whole.holdings[0]).x[north.train, 0].mean()) > 1e-3
    same(replace(data.fitted(whole), x=whole.x), whole)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"separator = \";\"": 'separator = "ab"'},
         "'banks/a/party.toml': columns.separator is 'ab'; it must be one ASCII character, such as "
         ', or ; or "\\t".'),
        ({"standardise = true": "standardise = 1"},
         "'banks/a/party.toml': columns.standardise must be true or false; correct it."),
        ({"weight =": "wieght ="},
         "unknown key of 'banks/a/party.toml' [columns] 'wieght': did you mean 'weight'?"),
        ({"train = 0.5": "train = 0.9"},
         "'banks/a/party.toml': split.train, val and test sum to 1.4; they may sum to 1 at most."),
        ({"seed = 7": 'seed = "x"'},
         "'banks/a/party.toml': split.seed must be a whole number; correct it."),
        ({'id = "konto"': 'id = "kontonr"'},
         "unknown column of 'banks/a/konten.csv' (columns.id) 'kontonr': did you mean 'konto'?"),
        ({'nodes = "konten.csv"': 'nodes = "kunden.csv"'},
         "there is no file 'banks/a/kunden.csv' (columns.nodes of its party.toml); correct the "
         "name."),
        ({'weight = "betrag"': 'split = "notiz"'},
         "'banks/a/party.toml': [split] draws a split, and the column 'notiz' has one "
         "(columns.split); keep one of them."),
        ({'turnover = "umsatz"': 'turnover = "umstaz"'},
         "unknown column of 'banks/a/konten.csv' (columns.features) 'umstaz': did you mean "
         "'umsatz'?"),
        ({'"AT", "DE"': '"AT"'},
         "'banks/a/konten.csv', column 'land', line 6: 'DE' is none of the categories AT; correct "
         "it, or add it to the categories all parties agreed on."),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_party_toml(banks, changes, said):
    text = GERMAN
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    (banks / "a" / "party.toml").write_text(text, encoding="utf-8")
    assert complaint(lambda: load_party("banks/a")) == said
