from __future__ import annotations

from pathlib import Path

from clusterlab.core.findings import Severity
from clusterlab.records.documents import read_findings, write_placement
from clusterlab.runs.finish import conclude
from clusterlab.runs.sweeping.slow_groups import slow_group_findings
from tests.records.fake_runs import fake_rows, make_run, points
from tests.verdict.test_groups import EIGHT_HOSTS, group_rows, slowed
from tests.verdict.test_pairs import pair_rows


def test_a_slow_group_is_a_finding_of_its_run(tmp_path: Path, capsys) -> None:
    run = make_run(tmp_path, slowed(group_rows(), (4, 5), 2.0), world_size=16)
    assert slow_group_findings(run) == (), "gloo on one host: its cores"
    write_placement(run.path, EIGHT_HOSTS)
    (found,) = slow_group_findings(run)
    assert (found.code, found.severity, found.ranks) == ("SLOW_GROUP", Severity.WARNING, (4, 5))
    conclude(run, None)
    assert found in read_findings(run.path)
    assert found.evidence[0].startswith("host n2, at all sizes")
    assert f"slow group: {found.evidence[0]}" in capsys.readouterr().err


def test_other_runs_have_none(tmp_path: Path) -> None:
    for i, rows in enumerate((group_rows(), pair_rows(), fake_rows(points(["all_reduce"])))):
        assert slow_group_findings(make_run(tmp_path / str(i), rows)) == ()
