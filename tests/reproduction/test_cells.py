"""The file of kept cells."""

from atoll.errors import AtollError
from made_up_paper import reproduce


def test_a_damaged_results_file_is_named_and_kept(paper, tmp_path):
    paper.write()
    (tmp_path / "results/nobody").mkdir(parents=True)
    kept = tmp_path / "results/nobody/table-1.json"
    kept.write_text("{")
    done = reproduce("--row", "small", "--seeds", "1")
    assert isinstance(done.exception, AtollError)
    assert "table-1.json" in str(done.exception)
    assert kept.read_text() == "{"
