"""Nonsense in, a finding or one clear error out: never a traceback."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from clusterlab.binding.diagnose import CODES, diagnose
from clusterlab.binding.records import JoinedRecord, RankRecord, load_record, read_record
from clusterlab.binding.table import record_lines
from clusterlab.core.errors import UsageError
from tests.binding.diagnose.fuzzing import fuzzed_record, random_environment
from tests.binding.pages import too_wide
from tests.support import shared_dir


def test_ten_thousand_strange_environments_are_judged() -> None:
    dice = random.Random(7)
    spoken = set()
    for _ in range(10_000):
        count = dice.randrange(1, 4)
        ranks = tuple(
            RankRecord(f"h{dice.randrange(2)}", dice.randrange(3), 0, random_environment(dice))
            for _ in range(count)
        )
        for finding in diagnose(JoinedRecord({}, ranks)):
            assert finding.fix and finding.evidence
            spoken.add(finding.code)
    assert spoken <= set(CODES) and len(spoken) >= 15


def test_spoilt_records_give_findings_or_one_clear_error() -> None:
    refused = judged = 0
    for seed in range(1500):
        try:
            record = read_record(fuzzed_record(seed), file="fuzzed")
        except UsageError as error:
            assert str(error).startswith("fuzzed")
            refused += 1
            continue
        findings = diagnose(record)
        assert too_wide(record_lines(record, findings), 100) == []
        judged += 1
    assert refused > 100 and judged > 500


def test_files_cut_anywhere_give_findings_or_one_clear_error(tmp_path: Path) -> None:
    text = (shared_dir() / "cases" / "binding" / "065.yaml").read_text()
    for end in range(0, len(text), 97):
        cut = tmp_path / "cut.yaml"
        cut.write_text(text[:end])
        try:
            diagnose(load_record(cut))
        except UsageError as error:
            assert "cut.yaml" in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\nranks: [*a, *a]",
        "ranks: " + "[" * 200 + "]" * 200,
        "ranks: !!python/object/apply:os.system ['true']",
        "ranks: [{host: a, rank: 0}]\nranks: []",
        "just words",
        "- a list",
        "",
        "\x00\x01",
    ],
    ids=["aliases", "deep", "tag", "twice", "words", "list", "empty", "binary"],
)
def test_bombs_and_foreign_files_are_refused_with_the_files_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "strange.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"strange\.yaml"):
        load_record(file)
