"""Documentation is executable: commands compose, Python blocks run, links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from cimopt.cli import VERBS
from cimopt.config.compose import compose_config, opened

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        *(ROOT / "docs").glob("**/*.md"),
        *(ROOT / "experiments").glob("**/README.md"),
        *(ROOT / "plugins").glob("*/README.md"),
    ]
)
CONFIG_OF = {"search": "config", "enumerate": "enumerate", "evaluate": "evaluate", "bench": "bench"}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S)


def commands() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for block in [*blocks(page, "bash"), *blocks(page, "sh"), *blocks(page, "")]:
            found += [(page.name, line) for line in block.splitlines() if re.match(r"(\.venv/bin/)?cimopt ", line)]
    return found


def test_there_are_commands():
    assert len(commands()) >= 8


def first_job(override: str) -> str:
    parsed = OverridesParser.create().parse_override(override)
    if not parsed.is_sweep_override():
        return override
    return f"{parsed.get_key_element()}={next(parsed.sweep_string_iterator())}"


@pytest.mark.parametrize(("page", "line"), commands())
def test_commands_compose(page, line):
    _, verb, *arguments = shlex.split(line, comments=True)
    assert verb in VERBS, f"{page}: {line}"
    if verb not in CONFIG_OF:
        return
    if {"-m", "--multirun"} & set(arguments):  # a sweep's first job stands for all
        arguments = [first_job(a) for a in arguments if a not in ("-m", "--multirun")]
    if "--config-dir" in arguments:  # the folder's choices exist there, the rest must compose
        at = arguments.index("--config-dir")
        folder = ROOT / arguments[at + 1]
        assert folder.is_dir(), f"{page}: {line}"
        arguments = arguments[:at] + arguments[at + 2 :]
    overrides = [opened(a) for a in arguments if not a.startswith(("hydra.", "hydra/", "--"))]
    compose_config(overrides, CONFIG_OF[verb])


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: str(p.relative_to(ROOT)))
def test_python_blocks_run(page):
    for code in blocks(page, "python"):
        exec(compile(code, str(page), "exec"), {"__name__": "docs"})


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
