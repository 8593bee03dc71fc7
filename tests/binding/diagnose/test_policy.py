"""Rules are general: none names a host, id, UUID or address of a sample."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import yaml

import clusterlab.binding.diagnose as package
from clusterlab.binding.diagnose import CODES, RULES, TAXONOMY
from tests.support import shared_dir

SOURCES = sorted(
    [
        *Path(package.__file__).parent.glob("*.py"),
        *(
            Path(package.__file__).parents[1] / n
            for n in ("fixes.py", "core_fixes.py", "folding.py", "log_patterns.py")
        ),
    ]
)


def strings(source: Path) -> list[str]:
    """String constants that the code uses, docstrings left out."""
    tree = ast.parse(source.read_text())
    documented = (ast.Module, ast.FunctionDef, ast.ClassDef)
    docs = {ast.get_docstring(n, clean=False) for n in ast.walk(tree) if isinstance(n, documented)}
    constants = [
        n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    ]
    return [c for c in constants if c not in docs]


def test_no_string_of_a_rule_is_a_host_uuid_address_or_job_of_a_case() -> None:
    forbidden: set[str] = set()
    for path in (shared_dir() / "cases" / "binding").glob("*.yaml"):
        case = yaml.safe_load(path.read_text())
        for host, node in case["nodes"].items():
            forbidden |= {str(host), *(str(g.get("pci")) for g in node["gpus"])}
            forbidden |= {str(g["uuid"]) for g in node["gpus"] if "uuid" in g}
        forbidden |= {
            str(r["env"]["SLURM_JOB_ID"]) for r in case["ranks"] if "SLURM_JOB_ID" in r["env"]
        }
    forbidden = {f for f in forbidden if len(f) > 3}
    assert len(forbidden) > 50
    for source in SOURCES:
        for text in strings(source):
            assert not [
                f for f in forbidden if re.search(rf"(?<![\w.]){re.escape(f)}(?![\w.])", text)
            ], source


def test_no_rule_reads_what_a_person_wrote_about_a_case() -> None:
    judged = ("expect", "diagnosis", "symptom", "confidence")
    for source in SOURCES:
        tree = ast.parse(source.read_text())
        read = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        assert not read & set(judged), source


def test_every_code_of_the_taxonomy_is_known_with_its_group_and_severity() -> None:
    given = yaml.safe_load((shared_dir() / "cases" / "binding_taxonomy.yaml").read_text())
    assert set(TAXONOMY) == set(given)
    for name, (group, severity, _, _) in given.items():
        assert (CODES[name].group, CODES[name].severity) == (group, severity)


def test_every_code_of_the_taxonomy_has_a_rule_that_may_speak_it() -> None:
    spoken = {text for source in SOURCES for text in strings(source) if text in CODES}
    assert set(TAXONOMY) <= spoken


def test_rules_are_many_named_once_and_say_in_their_first_line_which_code_they_speak() -> None:
    names = [rule.__name__ for rule in RULES]
    assert len(names) == len(set(names)) >= 75
    for rule in RULES:
        assert rule.__doc__, rule
