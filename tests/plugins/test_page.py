"""The commands of the page, one after the other as a reader would type them."""

import re
import shlex
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "plug-ins.md").read_text()


def test_the_commands_of_the_page_work(here, tmp_path):
    [block] = re.findall(r"```\n(atoll.*?)```", PAGE, re.S)
    commands = block.strip().splitlines()
    assert len(commands) == 4
    for command in commands:
        done = here(*shlex.split(command)[1:])
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    assert (tmp_path / "compared" / "fed-mine" / "seed-0" / "summary.json").is_file()


def test_what_it_says_of_sites_is_an_option_of_the_command(here):
    assert "--admit" in here("client", "--help").stdout
    [line] = [row for row in PAGE.splitlines() if row.strip().startswith("atoll client")]
    refused = here(*shlex.split(line)[1:])
    assert refused.returncode == 2
