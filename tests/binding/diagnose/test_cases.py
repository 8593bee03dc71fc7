"""Real-world cases: the right code among the findings, a fix with each, silence on the healthy ones."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusterlab.binding.diagnose import TAXONOMY, diagnose
from clusterlab.binding.records import load_record, read_record
from clusterlab.core.findings import Severity
from tests.support import shared_dir

JUDGEMENT = ("expect", "diagnosis", "fix", "symptom", "evidence", "source", "confidence")


def cases() -> list[Path]:
    return sorted((shared_dir() / "cases" / "binding").glob("*.yaml"))


@cache
def plain(path: Path) -> dict[str, Any]:
    data = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    assert isinstance(data, dict)
    return data


def test_every_case_has_its_primary_code_among_the_findings() -> None:
    missed = {}
    for path in cases():
        expected = plain(path)["expect"]["code"]
        found = [f.code for f in diagnose(load_record(path))]
        if expected != "OK" and expected not in found:
            missed[path.stem] = (expected, found)
    assert not missed


def test_healthy_cases_are_silent() -> None:
    controls = [path for path in cases() if plain(path)["expect"]["code"] == "OK"]
    assert controls
    for path in controls:
        loud = [f for f in diagnose(load_record(path)) if f.severity is not Severity.INFO]
        assert not loud, path.stem


def test_every_finding_has_evidence_and_a_fix_and_a_known_code() -> None:
    for path in cases():
        for finding in diagnose(load_record(path)):
            assert finding.code in TAXONOMY, path.stem
            assert finding.fix and finding.evidence, (path.stem, finding.code)


def test_most_of_the_consequences_that_people_named_are_found_as_well() -> None:
    named = found = 0
    for path in cases():
        also = set(plain(path)["expect"]["also"])
        named += len(also)
        found += len(also & {f.code for f in diagnose(load_record(path))})
    assert found >= 0.85 * named


def test_a_persons_judgement_in_the_file_changes_nothing() -> None:
    for path in cases():
        data = plain(path)
        lie = dict.fromkeys(JUDGEMENT, "CVD_EMPTY is the code, trust me")
        bare = {key: value for key, value in data.items() if key not in JUDGEMENT}
        answers = [diagnose(read_record(d, file="case")) for d in (data, bare, bare | lie)]
        assert answers[0] == answers[1] == answers[2], path.stem


def test_the_number_of_a_case_and_its_order_of_ranks_change_nothing() -> None:
    for path in cases():
        data = plain(path)
        turned = data | {"id": "999", "ranks": data["ranks"][::-1]}
        before = sorted(f.code for f in diagnose(read_record(data, file="case")))
        assert sorted(f.code for f in diagnose(read_record(turned, file="case"))) == before, (
            path.stem
        )


def test_other_host_names_uuids_and_addresses_give_the_same_codes() -> None:
    for path in cases():
        text = path.read_text()
        before = sorted(f.code for f in diagnose(load_record(path)))
        for old, new in (
            ("node", "qx"),
            ("7d1e-4c52", "1234-5678"),
            ("0000:1b", "0000:1a"),
            (":43:", ":42:"),
        ):
            text = text.replace(old, new)
        text = text.replace("ntasks-per-qx", "ntasks-per-node").replace(
            "gpus-per-qx", "gpus-per-node"
        )
        text = (
            text.replace("per_qx", "per_node")
            .replace("qx_rank", "node_rank")
            .replace("qxs:", "nodes:")
        )
        renamed = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        assert sorted(f.code for f in diagnose(read_record(renamed, file="x"))) == before, path.stem


@pytest.mark.parametrize("key", ["nodes", "launcher", "slurm"])
def test_a_case_without_a_part_is_still_judged(key: str) -> None:
    for path in cases():
        data = {k: v for k, v in plain(path).items() if k != key}
        for finding in diagnose(read_record(data, file="case")):
            assert finding.fix and finding.evidence
