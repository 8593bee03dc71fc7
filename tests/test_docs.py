"""README and docs: links lead somewhere, commands exist, and what the README shows runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from clusterlab.cli.app import app
from tests.conftest import CLI, clean_environment

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md"),
                *ROOT.glob("*/README.md")])  # fmt: skip
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
COMMAND = re.compile(r"^(?:\$ )?clusterlab ([a-z][a-z0-9 -]*)")


def code_of(text: str) -> list[str]:
    """Inline code and the lines of code blocks."""
    blocks = re.findall(r"```(?:bash|sh)?\n(.*?)```", text, re.DOTALL)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [line for block in blocks for line in block.splitlines()] + inline


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_to_files_that_are_there(page: Path) -> None:
    targets = [t for t in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in t]
    missing = [t for t in targets if not (page.parent / t).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_that_are_mentioned_exist(page: Path) -> None:
    command = typer.main.get_command(app)
    for code in code_of(page.read_text(encoding="utf-8")):
        for words in COMMAND.findall(code.strip()):
            where = command
            for word in words.split():
                known = getattr(where, "commands", None)
                if known is None or word.startswith("-"):
                    break
                assert word in known, f"{page.name}: clusterlab {words}"
                where = known[word]


@pytest.mark.ranks
def test_the_first_commands_of_the_readme_run(calibrated_cache: Path, tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    job = next(c for c in code_of(text) if c.startswith("bash jobs/"))
    predict = next(c for c in code_of(text) if c.startswith("clusterlab predict"))
    environment = clean_environment(
        XDG_CACHE_HOME=str(calibrated_cache),
        CLUSTERLAB_RUNS=str(tmp_path),
        CLUSTERLAB=str(Path(sys.executable).with_name("clusterlab")),
        RANKS="2",
    )
    done = subprocess.run(
        shlex.split(job), cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
        timeout=170,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len([x for x in done.stdout.splitlines() if not x.startswith("#")]) == 6
    assert (next(tmp_path.iterdir()) / "report.html").exists()
    command = [*CLI, *shlex.split(predict)[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "all_reduce" in done.stdout


def test_the_readme_points_at_five_files_that_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.split("## Five files to read first")[1].split("\n\nThen")[0]
    files = LINK.findall(section)
    assert len(files) == 5
    assert all((ROOT / f).is_file() for f in files)
