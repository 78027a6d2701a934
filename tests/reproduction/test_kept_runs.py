"""Single runs that outlive an interrupted table."""

from atoll.errors import AtollError
from made_up_paper import kept_cells, reproduce


def test_a_kept_run_serves_an_interrupted_table(paper, tmp_path, monkeypatch):
    from atoll.reproduction.reproduce import _findings
    from atoll.reproduction.studies import run as run_study

    paper.write_figure("curves")
    command = ("--row", "two", "--seeds", "2", "--runs", str(tmp_path / "runs"))
    reproduce(*command)
    first = kept_cells()
    runs = sorted((tmp_path / "runs").iterdir())
    assert len(runs) == 4  # two methods, two seeds
    runs[0].unlink()
    _findings.cache_clear()
    again = []
    original = run_study.run_experiment
    monkeypatch.setattr(
        run_study, "run_experiment", lambda e, o, **how: again.append(e) or original(e, o, **how)
    )
    reproduce(*command)
    assert len(again) == 1
    second = kept_cells()
    for one, other in zip(first, second, strict=True):
        assert one.values == other.values
        assert one.array == other.array


def test_a_kept_run_that_is_damaged_is_named(paper, tmp_path):
    from atoll.reproduction.reproduce import _findings

    paper.write_figure("lines")
    command = ("--row", "two", "--seeds", "1", "--runs", str(tmp_path / "runs"))
    reproduce(*command)
    _findings.cache_clear()
    for path in (tmp_path / "runs").iterdir():
        path.write_text("{")
    done = reproduce(*command)
    assert isinstance(done.exception, AtollError)
    assert "delete it" in str(done.exception)
