import pytest

from atoll.reproduction import recipe
from made_up_paper import MadeUpPaper


@pytest.fixture
def paper(tmp_path, monkeypatch):
    """A paper of one table; results land in an empty folder."""
    monkeypatch.setattr(recipe, "recipe_folder", lambda: tmp_path / "recipes")
    monkeypatch.chdir(tmp_path)
    return MadeUpPaper(tmp_path / "recipes")
