"""What the site needs besides Markdown: formulas as MathML, one entry per method, the root's files.

mkdocs calls these functions by name.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
# Deeper pages about a paper or a family; each is linked from its methods' own pages.
_FAMILIES = (
    "baselines", "general-baselines", "fed-pub", "fed-sage", "fed-gala", "ppfl-gnn", "graphfl",
    "gfl-appnp", "graph-classification", "fed-gta", "ada-fgl", "fed-aux", "fed-iih", "fed-gcn",
    "o-pfgl",
)  # fmt: skip
_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.S
)


def on_config(config: Any) -> Any:
    """The list of methods is that of the folder: adding one edits no list."""
    names = sorted(path.name for path in (ROOT / "docs" / "methods").glob("*.md"))
    for entry in config["nav"]:
        if isinstance(entry, dict) and "Methods" in entry:
            entry["Methods"] += [{Path(name).stem: f"methods/{name}"} for name in names]
            entry["Methods"].append({"Papers and families": [f"{name}.md" for name in _FAMILIES]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """CONTRIBUTING.md lies at the root, where contributors look for it, and is a page as well."""
    text = (ROOT / "CONTRIBUTING.md").read_text().replace("](docs/", "](")
    files.append(File.generated(config, "contributing.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links that lead out of docs/ where Markdown is read as it lies, lead to pages here."""
    return markdown.replace("](../CONTRIBUTING.md", "](contributing.md")


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    """Formulas as MathML, which browsers draw by themselves; names in docstrings as plain code."""
    content = re.sub(r":(?:class|func|meth|mod):(?=<code>)", "", content)
    return _FORMULA.sub(lambda found: _mathml(found, page.file.src_uri), content)


def _mathml(found: re.Match[str], where: str) -> str:
    tex = html.unescape(found["tex"]).strip()
    display = "block" if found["tag"] == "div" else "inline"
    try:
        drawn = convert(tex, display=display)
    except Exception as problem:
        raise PluginError(f"{where}: the formula '{tex}' can't be read ({problem!r})") from None
    if "\\" in re.sub(r"<[^>]*>", "", drawn):
        raise PluginError(f"{where}: the formula '{tex}' has a command that is not known")
    # Bars of a norm are as high as its text; stretched ones would take their index with them.
    drawn = drawn.replace("<mo>&#x02016;</mo>", '<mo stretchy="false">&#x02016;</mo>')
    return f"<{found['tag']} class='formula'>{drawn}</{found['tag']}>"
