from pathlib import Path

import pytest

from atoll.atomic import written_whole


def test_the_target_appears_only_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file"
    with written_whole(target) as part:
        part.write_text("all of it")
        assert not target.exists()
    assert target.read_text() == "all of it"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt])
def test_an_interruption_leaves_what_was_there(
    tmp_path: Path, problem: type[BaseException]
) -> None:
    target = tmp_path / "file"
    target.write_text("old")

    def write_half() -> None:
        with written_whole(target) as part:
            part.write_text("half of the n")
            raise problem

    with pytest.raises(problem):
        write_half()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]
