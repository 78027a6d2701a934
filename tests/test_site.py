"""The documentation as a site: it is built without a warning, and loads nothing from elsewhere."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import hooks
import method_pages
from atoll.methods.base import methods

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built with every warning as an error, dead links and anchors among them."""
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        capture_output=True, text=True, cwd=ROOT, timeout=240,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return out


class Loaded(HTMLParser):
    """What a page loads by itself."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if "src" in given:
            self.found.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "preconnect", "icon"):
            self.found.append(given.get("href", ""))


def test_pages_load_nothing_from_elsewhere_and_formulas_are_drawn_without_a_script(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        text = page.read_text()
        reader = Loaded()
        reader.feed(text)
        outside = [address for address in reader.found if "//" in address]
        assert outside == [], page
        assert 'class="arithmatex"' not in text, page
    assert "<math" in (site / "methods" / "fed-pub.html").read_text()


def test_every_method_has_an_entry_and_the_reference_has_docstrings(site):
    text = (site / "index.html").read_text()
    missing = [name for name in methods if f'href="methods/{name}.html"' not in text]
    assert missing == []
    reference = (site / "reference.html").read_text()
    assert "Run an experiment and return its result." in reference
    assert ":class:" not in reference


def test_a_formula_that_can_not_be_read_fails_the_build():
    class Page:
        class file:
            src_uri = "x.md"

    good = r'<div class="arithmatex">\[ \frac{a}{b} \]</div>'
    assert "<mfrac>" in hooks.on_page_content(good, Page, None, None)
    bad = r'<span class="arithmatex">\( \nosuchthing \)</span>'
    with pytest.raises(hooks.PluginError, match="nosuchthing"):
        hooks.on_page_content(bad, Page, None, None)


@pytest.fixture(scope="module")
def written():
    return method_pages.written_pages()


def test_the_pages_of_methods_are_current(written):
    """Write them anew with: make pages"""
    for path, text in written.items():
        assert path.is_file(), f"{path} is missing: make pages"
        assert path.read_text() == text, f"{path} is not current: make pages"
    listed = {path.stem for path in (ROOT / "docs" / "methods").glob("*.md")}
    assert listed == set(methods)


def test_every_page_of_a_method_has_an_idea_and_a_formula_of_its_own():
    without = {"no-augment"}  # fed-gala without a step: its formula is in the text
    for name in methods:
        above = (ROOT / "docs" / "methods" / f"{name}.md").read_text().split(method_pages.MARK)[0]
        assert above.startswith(f"# {name}\n"), name
        assert len(above.split()) > 20, name
        assert "$$" in above or name in without, name


def test_the_drawing_says_what_the_server_sees(written):
    by_name = {p.stem: text for p, text in written.items() if p.suffix == ".svg"}
    assert "model, weight (their sum)" in by_name["fed-avg"]
    assert "model (every site&#x27;s)" in by_name["fed-pub"]
    assert re.findall(r">(\w+), every round<", by_name["fed-avg"]) == ["train", "evaluate"]
