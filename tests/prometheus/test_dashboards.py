"""Debian's Prometheus scrapes what was exported: promtool agrees, and every expression has an answer."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from clusterlab.cli.app import app
from tests.conftest import CLI, clean_environment
from tests.prometheus.debian import ROOT, RULES, Server, promtool, serving
from tests.prometheus.some_runs import HOSTILE, some_runs
from tests.report.kinds_of_run import build

BOARDS = sorted((ROOT / "dashboards" / "grafana").glob("*.json"))
RULES_TEST = RULES.with_name("rules_test.yml")
PLACES = r'(?:cluster|fabric|instance|nodename|Hostname)\W{1,2}"([^"]*)"'
_THREE_DAYS_S = 3 * 86400


@dataclass(frozen=True)
class Exported:
    """The folder of textfiles, and the same runs as OpenMetrics."""

    folder: Path
    openmetrics: bytes

    @property
    def prom(self) -> bytes:
        return (self.folder / "clusterlab.prom").read_bytes()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """As a timer would do it, and a file of another cluster that nobody has written for three days."""
    root = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CLUSTER_NAME", HOSTILE)
        patch.setenv("SLURM_JOB_ID", "4711")
        made = some_runs(root)
    folder = tmp_path_factory.mktemp("textfiles")
    _export("--last", "50", "--out", str(folder), runs=root)
    stale = folder / "clusterlab-beta.prom"
    _export(str(made[0]), "--cluster", "beta", "--out", str(stale), runs=root)
    old = stale.stat().st_mtime - _THREE_DAYS_S
    os.utime(stale, (old, old))
    return Exported(folder, _export("--last", "50", "--openmetrics", runs=root))


def _export(*arguments: str, runs: Path) -> bytes:
    done = subprocess.run(
        [*CLI, "export", "prom", *arguments], check=True, capture_output=True, timeout=60,
        env=clean_environment(CLUSTERLAB_RUNS=str(runs)),
    )  # fmt: skip
    return done.stdout


@pytest.fixture(scope="module")
def server(exported: Exported, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    others = (Path(__file__).parent / "others.txt").read_text(encoding="utf-8")
    pages = {
        "others": ("text/plain", others.replace("HOST", os.uname().nodename).encode()),
        "openmetrics": ("application/openmetrics-text; version=1.0.0", exported.openmetrics),
    }
    with serving(tmp_path_factory.mktemp("server"), exported.folder, pages) as one:
        # rate() wants two scrapes; then rules whose alerts are a query of their own
        one.wait_for("count(sum_over_time(up[1m]) >= 3) == 3")
        one.wait_for('ALERTS{alertname="ClusterlabWrongData"}')
        one.wait_for("clusterlab:gpus_busy:count")
        yield one


def test_promtool_takes_the_metrics(exported: Exported) -> None:
    assert promtool("check", "metrics", stdin=exported.prom) == (0, "")


@pytest.mark.parametrize("kind", ["two_gpus", "slow_link"])
def test_promtool_takes_other_runs(kind: str, tmp_path: Path) -> None:
    run = build(kind, tmp_path, clean_environment())
    text = _export(str(run), runs=tmp_path)
    assert b"clusterlab_busbw_gbs{" in text
    assert promtool("check", "metrics", stdin=text) == (0, "")


def test_promtool_takes_the_rules_and_their_tests() -> None:
    code, said = promtool("check", "rules", str(RULES))
    assert code == 0, said
    code, said = promtool("test", "rules", RULES_TEST.name, cwd=RULES_TEST.parent)
    assert code == 0, said


def test_promtool_takes_the_configuration_of_the_readme(tmp_path: Path) -> None:
    text = (ROOT / "dashboards" / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(rule_files:.*?)```", text, re.DOTALL)
    place = "/etc/prometheus/clusterlab/rules.yml"
    assert place in block
    config = tmp_path / "prometheus.yml"
    config.write_text(block.replace(place, str(RULES)), encoding="utf-8")
    code, said = promtool("check", "config", str(config))
    assert code == 0, said


def test_promtool_is_not_always_content(exported: Exported) -> None:
    assert promtool("check", "metrics", stdin=exported.openmetrics)[0] != 0
    renamed = exported.prom.replace(b"_seconds", b"_microseconds")
    assert promtool("check", "metrics", stdin=renamed)[0] != 0


def test_it_is_scraped_without_a_complaint(server: Server) -> None:
    up = server.query("max_over_time(up[5m])")
    jobs = {"node", "others", "openmetrics"}
    assert {one["metric"]["job"]: one["value"][1] for one in up} == dict.fromkeys(jobs, "1")
    assert [s["value"][1] for s in server.answer("node_textfile_scrape_error")] == ["0"]


def test_openmetrics_says_the_same(server: Server, exported: Exported) -> None:
    count = 'count({__name__=~"clusterlab_.+",job="%s",cluster!="beta"})'
    (text,), (openmetrics,) = (server.answer(count % job) for job in ("node", "openmetrics"))
    assert openmetrics["value"][1] == text["value"][1]
    assert int(text["value"][1]) == sum(
        not line.startswith(b"#") for line in exported.prom.splitlines()
    )


def test_strings_of_runs_stay_labels(server: Server) -> None:
    assert server.query('{__name__=~".*evil.*"}') == []
    (found,) = server.answer(
        'clusterlab_run_info{kind="sweep",fabric="hgx-h100",cluster!="beta",job="node"}'
    )
    shown = HOSTILE.replace("\n", " ")
    assert found["metric"]["run_name"] == found["metric"]["cluster"] == shown
    assert found["metric"]["job_id"] == "4711"
    only_here = {"run_id", "job_id", "run_name"}
    for name in server.get("label/__name__/values"):
        if name.startswith("clusterlab_") and name != "clusterlab_run_info":
            assert not only_here & set(server.answer(name)[0]["metric"]), name


def _filled(expression: str) -> str:
    """As Grafana sends it with `All` chosen."""
    text = re.sub(r"\$__rate_interval", "30s", expression)
    return re.sub(r"\$(?!\d)\w+", ".*", text)


@pytest.mark.parametrize("board", BOARDS, ids=lambda path: path.stem)
def test_every_panel_has_an_answer(server: Server, board: Path) -> None:
    data = json.loads(board.read_text(encoding="utf-8"))
    silent, unnamed, asked = [], [], 0
    for panel in data["panels"]:
        for target in panel.get("targets", ()):
            asked += 1
            found = server.answer(_filled(target["expr"]))
            if not found:
                silent.append((panel["title"], target["expr"]))
            legend = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            if found and not legend <= set().union(*(one["metric"] for one in found)):
                unnamed.append((panel["title"], target["legendFormat"]))
    assert asked > 10
    assert not silent
    assert not unnamed
    for variable in data["templating"]["list"]:
        if variable["type"] == "query":
            matched = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert matched is not None
            series = server.answer(_filled(matched[1]))
            assert any(matched[2] in one["metric"] for one in series), variable["name"]


@pytest.mark.parametrize("board", BOARDS, ids=lambda path: path.stem)
def test_a_board_asks_for_the_servers_data_and_names_no_cluster(board: Path) -> None:
    data = json.loads(board.read_text(encoding="utf-8"))
    assert data["schemaVersion"] == 39
    assert data["id"] is None
    assert data["uid"] == board.stem
    names = [one["name"] for one in data["templating"]["list"]]
    assert names[0] == "datasource"
    ids = [panel["id"] for panel in data["panels"]]
    assert len(ids) == len(set(ids))
    for panel in data["panels"]:
        for part in (panel, *panel.get("targets", ())):
            assert part.get("datasource", {"uid": "${datasource}"})["uid"] == "${datasource}"
        for target in panel.get("targets", ()):
            used = set(re.findall(r"\$([a-z_]\w*)", target["expr"])) - {
                "__rate_interval",
                "__range",
            }
            assert used <= set(names), panel["title"]
            for value in re.findall(PLACES, target["expr"]):
                assert value.startswith("$"), panel["title"]


def _rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_every_rule_has_an_answer_and_is_well(server: Server) -> None:
    assert [rule["expr"] for rule in _rules() if not server.answer(rule["expr"])] == []
    found = [rule for group in server.get("rules")["groups"] for rule in group["rules"]]
    assert {rule["name"]: rule["health"] for rule in found} == {
        rule.get("alert", rule.get("record")): "ok" for rule in _rules()
    }


def test_an_alert_names_the_command_and_the_run(server: Server) -> None:
    alerts = server.get("alerts")["alerts"]
    commands = {a["labels"]["alertname"]: a["annotations"]["command"] for a in alerts}
    assert set(commands) == {rule["alert"] for rule in _rules() if "alert" in rule}
    assert not [c for c in commands.values() if "error" in c]
    (info,) = server.answer('clusterlab_run_info{fabric="dgx-a100",job="node"}')
    assert info["metric"]["run_id"] in commands["ClusterlabWrongData"]


@pytest.mark.parametrize("rule", [r for r in _rules() if "alert" in r], ids=lambda r: r["alert"])
def test_the_commands_of_alerts_exist(rule: dict[str, Any]) -> None:
    tree = typer.main.get_command(app)
    command = rule["annotations"]["command"]
    named = re.findall(r"clusterlab ([a-z]+)", command)
    assert named or command.startswith("sbatch jobs/")
    for name in named:
        assert name in tree.commands, name  # type: ignore[attr-defined]
