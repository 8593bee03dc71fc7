"""``clusterlab predict``: its options, its errors, and what --explain and --tuning say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from clusterlab.cli.main import main

Capture = pytest.CaptureFixture[str]


def text(capsys: Capture, *words: str) -> str:
    assert main(["predict", *words]) == 0
    return capsys.readouterr().out


def data(capsys: Capture, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text(capsys, *words, "--json"))
    return found


def refused(capsys: Capture, *words: str) -> str:
    assert main(["predict", *words]) == 2
    said = capsys.readouterr()
    assert not said.out
    assert said.err.count("\n") == 1 and said.err.startswith("clusterlab: ")
    return said.err


HGX = ("--fabric", "hgx-h100")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--ranks", "9"), "at most its 8 GPUs"),
        (("--ranks", "0"), "--ranks: 0; expected at least 1"),
        (("--ranks", "-2"), "--ranks: -2; expected at least 1"),
        (("--ranks-per-node", "0"), "--ranks-per-node: 0"),
        (("--ranks-per-node", "4", "--ranks", "5"), "at most its 4 GPUs (4 per host)"),
        (("-b", "0"), "-b: 0; expected at least 1 byte"),
        (("-b", "-8"), "-b: not a size"),
        (("-b", "8", "-e", "-1G"), "-e: not a size"),
        (("--collective", "all_reduced"), "unknown collective 'all_reduced'"),
        (("-x", "NCCL_ALGO=rings"), "NCCL_ALGO: unknown value 'rings'"),
        (("-x", "NCCL_PROTO=LL256"), "NCCL_PROTO: unknown value 'LL256'"),
        (("-x", "NCCL_ALGO"), "NCCL_ALGO has no value"),
        (("-x", "NCCL_ALGO="), "NCCL_ALGO has no value"),
        (("-x", "OMP_NUM_THREADS=4"), "a variable of NCCL"),
        (("-x", "ring"), "expected NAME=VALUE"),
        (("-x", "NCCL_PROTO=LL", "-x", "NCCL_PROTO=Simple"), "one value each"),
        (("-x", "NCCL_ALGO=CollNetDirect"), "nothing is left for all_reduce"),
        (("-x", "NCCL_NTHREADS=100"), "NCCL_NTHREADS: 100; expected a multiple of 32"),
        (("--nccl-version", "newest"), "--nccl-version: 'newest'"),
        (
            ("--nccl-version", "2.30.3; ls"),
            "--nccl-version: '2.30.3; ls'; expected a version, as 2.",
        ),
        (("--nccl-version", "2.30.3\n2.27.5"), "--nccl-version: "),
        (("--timing", "graphs"), "unknown timing 'graphs'"),
        (("--backend", "mpi"), "--backend"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(
    capsys: Capture, words: tuple[str, ...], said: str
) -> None:
    assert said in refused(capsys, *HGX, "-b", "1M", *words)


@pytest.mark.parametrize(
    "words",
    [("-x", "NCCL_ALGO=ring"), ("--nccl-version", "2.27.5"), ("--timing", "graph"), ("--tuning",)],
)
def test_what_only_nccl_knows_is_refused_for_gloo(capsys: Capture, words: tuple[str, ...]) -> None:
    assert words[0] in refused(capsys, "--fabric", "lab-2x4", "-b", "1M", *words)


def test_gloo_has_one_way_for_a_flow_unless_said(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "slow.yaml"
    file.write_text("base: lab-rails-4x2\nbroken: ['leaf0/spine0:half']\n")
    words = ("--fabric", str(file), "--collective", "all_gather", "-b", "8M")
    (unsaid,), (pinned,), (spread,) = (
        data(capsys, *words, *more)
        for more in ((), ("--routing", "pinned"), ("--routing", "adaptive"))
    )
    assert unsaid["time_us"] == pinned["time_us"] == pytest.approx(2 * spread["time_us"])
    assert unsaid["bottleneck"]["name"] in {"leaf0->spine0", "spine0->leaf0"}


def test_a_lab_says_how_it_routes(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text("base: lab-rails-4x2\nrouting: hash\nbroken: []\n")
    words = ("--fabric", str(file), "--collective", "all_gather", "-b", "8M")
    assert data(capsys, *words) == data(capsys, *words, "--routing", "hash")
    assert data(capsys, *words) != data(capsys, *words, "--routing", "pinned")


def test_a_host_without_switches_has_no_routing(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "alone.yaml"
    file.write_text(
        "name: alone\nhosts: {count: 1, devices: [{name: cpu0, kind: cpu, cores: 4}]}\n"
    )
    words = ("--fabric", str(file), "-b", "1M", "--routing", "hash")
    assert "--routing: alone has no switches" in refused(capsys, *words)


def test_variables_force_what_they_force_in_nccl(capsys: Capture) -> None:
    (free,) = data(capsys, *HGX, "-b", "1G")
    (forced,) = data(capsys, *HGX, "-b", "1G", "-x", "NCCL_ALGO=ring", "--env", "NCCL_PROTO=LL128")
    assert (free["algorithm"], forced["algorithm"], forced["protocol"]) == ("nvls", "ring", "ll128")
    assert forced["time_us"] > free["time_us"]
    same = [a for a in free["alternatives"] if (a["algorithm"], a["protocol"]) == ("ring", "ll128")]
    assert forced["time_us"] == pytest.approx(same[0]["time_us"])


def test_the_environment_is_not_read(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    before = data(capsys, *HGX, "-b", "1G")
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("NCCL_PROTO", "nonsense")
    assert data(capsys, *HGX, "-b", "1G") == before
    assert "environment are not read" in " ".join(text(capsys, "--help").split())


def test_variables_without_a_model_are_named(capsys: Capture) -> None:
    assert "note: NCCL_BUFFSIZE is set; the prediction does not count it" in text(
        capsys, *HGX, "-b", "1M", "-x", "NCCL_BUFFSIZE=1048576"
    )


def test_the_version_decides_the_choice(capsys: Capture) -> None:
    (old,) = data(capsys, *HGX, "-b", "1G", "--nccl-version", "2.14.3")
    (new,) = data(capsys, *HGX, "-b", "1G", "--nccl-version", "2.27.5")
    assert (old["algorithm"], new["algorithm"]) == ("ring", "nvls")
    assert any("2.14.3" in c["source"] for c in old["provenance"])


def test_timing_is_the_launch_under_small_sizes_only(capsys: Capture) -> None:
    small, large = (
        {
            how: data(capsys, *HGX, "-b", size, "--timing", how)[0]["time_us"]
            for how in ("eager", "graph", "library")
        }
        for size in ("8", "1G")
    )
    assert small["eager"] > small["library"] >= small["graph"]
    assert large["eager"] == large["library"] == large["graph"]
    assert data(capsys, *HGX, "-b", "8")[0]["time_us"] == small["library"]


def test_ranks_per_node_spreads_ranks_over_hosts(capsys: Capture) -> None:
    two = ("--fabric", "dgx-h100-2node", "-b", "1G", "--explain")
    (packed,) = data(capsys, *two, "--ranks", "8")
    (spread,) = data(capsys, *two, "--ranks", "8", "--ranks-per-node", "4")
    (all_of_them,) = data(capsys, *two, "--ranks-per-node", "4")
    assert (packed["explanation"]["nodes"], spread["explanation"]["nodes"]) == (1, 2)
    assert all_of_them["explanation"]["ranks"] == 8
    assert spread["time_us"] > packed["time_us"]


def test_explain_says_why_busbw_is_above_the_line_rate_under_nvls(capsys: Capture) -> None:
    said = " ".join(text(capsys, *HGX, "-b", "16G", "--explain").split())
    found = re.search(
        r"busbw ([\d.]+) GB/s on links of ([\d.]+) GB/s \(NVLink of each GPU\): nvls moves S \(1 \+ 1/n\) = "
        r"1\.125 S over them, a ring would 2 S \(n-1\)/n = 1\.750 S; they are (\d+)% busy, "
        "so busbw is above the line rate",
        said,
    )
    assert found, said
    busbw, link, busy = map(float, found.groups())
    assert busbw > link
    # busbw is 1.75 S over the time, and 1.125 S pass the link.
    assert busy == pytest.approx(100 * busbw / 1.75 * 1.125 / link, abs=0.6)


def test_explain_ranks_all_ways_with_nccls_own_figures(capsys: Capture) -> None:
    (point,) = data(capsys, *HGX, "-b", "256M", "--explain")
    why = point["explanation"]
    ways = {(w["algorithm"], w["protocol"]): w for w in why["ways"]}
    assert len(ways) == 1 + len(point["alternatives"])
    assert (why["ways"][0]["algorithm"], why["ways"][0]["protocol"]) == ("nvls", "simple")
    assert why["ways"][0]["library_time_us"] == point["library_time_us"]
    theirs = [w["library_time_us"] for w in why["ways"]]
    assert theirs == sorted(theirs)
    assert "collnet_chain/simple" in why["switched_off"]
    table = text(capsys, *HGX, "-b", "256M", "--explain").splitlines()
    shown = [
        line.split() for line in table if re.match(r" +(ring|tree|nvls)/\S+ +[\d.]+ +[\d.]+", line)
    ]
    assert {tuple(words[0].split("/")) for words in shown} == set(ways)
    assert [float(words[1]) for words in shown] == sorted(float(words[1]) for words in shown)
    assert next(words for words in shown if "chosen" in words)[0] == "nvls/simple"


@pytest.mark.parametrize(
    "words",
    [
        ("--fabric", "hgx-h100", "-b", "1M"),
        ("--fabric", "superpod-h100-1su", "--ranks", "64", "-b", "1G"),
        ("--fabric", "l40s-8", "-b", "1M"),
        ("--fabric", "mi300x", "-b", "64M"),
        ("--fabric", "gb200-nvl72", "--collective", "all_gather", "-b", "64M"),
        ("--fabric", "aws-p5", "--collective", "all_to_all", "-b", "64M"),
    ],
)
def test_the_parts_of_the_time_add_up(capsys: Capture, words: tuple[str, ...]) -> None:
    (point,) = data(capsys, *words, "--explain", "--timing", "library")
    why = point["explanation"]
    assert sum(part["us"] for part in why["parts"]) == pytest.approx(why["formula_us"])
    assert all(part["us"] > 0 for part in why["parts"])
    assert why["formula_us"] <= point["time_us"] * 1.05


def test_explain_explains_the_last_point_only(capsys: Capture) -> None:
    points = data(capsys, *HGX, "-b", "1M", "-e", "4M", "-f", "2", "--explain")
    assert ["explanation" in p for p in points] == [False, False, True]
    assert "all_reduce of 4 MiB:" in text(
        capsys, *HGX, "-b", "1M", "-e", "4M", "-f", "2", "--explain"
    )


def test_explain_holds_for_one_rank_and_without_a_model(capsys: Capture) -> None:
    assert "one rank" in text(capsys, *HGX, "--ranks", "1", "-b", "1M", "--explain")
    assert "NCCL has no model of this collective" in text(
        capsys, *HGX, "--collective", "all_to_all", "-b", "1M", "--explain"
    )


def test_lines_of_an_explanation_fit_a_terminal(capsys: Capture) -> None:
    said = text(capsys, "--fabric", "superpod-h100-1su", "-b", "1M", "--explain")
    start = said.index("all_reduce of 1 MiB")
    prose = said[start:].split("constants, by source")[0]
    assert max(map(len, prose.splitlines())) <= 100


def test_tuning_is_nccls_table(capsys: Capture) -> None:
    said = text(capsys, *HGX, "-b", "1M", "--tuning")
    row = next(line for line in said.splitlines() if line.lstrip().startswith("AllReduce |"))
    assert re.match(r"\s+AllReduce \|\s+[\d.]+/\s*[\d.]+ \|", row)
    (point,) = data(capsys, *HGX, "-b", "1M", "--tuning")
    assert row in point["tuning_table"]


def test_json_has_all_that_the_table_leaves_out(capsys: Capture) -> None:
    (point,) = data(capsys, *HGX, "-b", "1G")
    assert {"library_time_us", "alternatives", "bottleneck", "provenance", "notes", "bound"} <= set(
        point
    )
    assert point["bottleneck"]["name"] == "NVLink of each GPU"
    assert all({"name", "value", "unit", "source"} == set(c) for c in point["provenance"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("-x", "NCCL_NVLS_ENABLE=0"),
            r"NCCL_NVLS_ENABLE=0 \(.*\): ring/simple [\d.]+ us instead of nvls/simple [\d.]+ us \(x 1\.\d+\)",
        ),
        (("-x", "NCCL_MAX_CTAS=2"), r"NCCL_MAX_CTAS=2 \(.*\): nvls/simple .* instead of nvls/simple"),
        (("-x", "NCCL_IB_DISABLE=1"), r"NCCL_IB_DISABLE=1 \(.*\): changes nothing here"),
        (("-x", "NCCL_BUFFSIZE=1"), r"NCCL_BUFFSIZE=1: not counted"),
        (("-x", "NCCL_P2P_DISABLE=1"), r"changes nothing here; does not take NVLS away"),
        (("-x", "NCCL_ALGO=tree", "-x", "NCCL_PROTO=LL"), r"NCCL_ALGO=tree .* NCCL_PROTO=LL "),
    ],
)  # fmt: skip
def test_explain_says_what_each_variable_changes(
    capsys: Capture, words: tuple[str, ...], said: str
) -> None:
    shown = " ".join(text(capsys, *HGX, "-b", "1G", *words, "--explain").split())
    assert re.search(said, shown), shown


def test_each_variable_is_taken_away_by_itself(capsys: Capture) -> None:
    both = (*HGX, "-b", "1G", "-x", "NCCL_P2P_DISABLE=1", "-x", "NCCL_NVLS_ENABLE=0")
    (point,) = data(capsys, *both, "--explain")
    effects = {e["name"]: e for e in point["explanation"]["variables"]}
    for one, other in (("NCCL_P2P_DISABLE", both[-1]), ("NCCL_NVLS_ENABLE", both[-3])):
        (alone,) = data(capsys, *HGX, "-b", "1G", "-x", other)
        assert effects[one]["time_us_without"] == alone["time_us"]
        assert effects[one]["time_us"] == point["time_us"] > alone["time_us"]


def test_a_variable_that_another_needs_is_said_to_be(capsys: Capture) -> None:
    words = ("--fabric", "dgx-h100-2node", "--collective", "all_gather", "-b", "1M", "--explain")
    shown = text(capsys, *words, "-x", "NCCL_ALGO=PAT", "-x", "NCCL_PAT_ENABLE=1")
    said = "NCCL_PAT_ENABLE=1 (PAT for more than one GPU a node): without it NCCL would stop"
    assert said in " ".join(shown.split())


UNKNOWN_RATES = """
name: two
hosts:
  devices:
    - {name: "gpu{i}", kind: gpu, count: 2, model: H200}
    - {name: cpu0, kind: cpu}
  links:
    - {from: "gpu*", to: "gpu*", type: nv, one_way: true}
    - {from: "gpu*", to: cpu0, type: pcie}
links:
  nv: {class: nvlink, GBps: 20.6, GBps_source: "a test", latency_us: unknown}
  pcie: {class: pcie, GBps: unknown, latency_us: unknown}
"""


def test_what_nothing_bounds_is_said_and_no_inf_is_printed(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(UNKNOWN_RATES)
    words = ("--fabric", str(file), "-b", "1M")
    said = text(capsys, *words, "--explain")
    assert "inf" not in said.split("constants, by source")[0].replace("infini", "")
    assert "note: no bound: the fabric gives no rate for the links between the ranks" in said
    assert "bound       none: nothing known limits it" in said
    (point,) = data(capsys, *words)
    assert point["bound"]["busbw_GBps"] is None


@pytest.mark.parametrize("timing", ["eager", "graph", "library"])
def test_one_rank_sends_nothing_and_says_so(capsys: Capture, timing: str) -> None:
    words = (*HGX, "--ranks", "1", "-b", "1M", "--collective", "all", "--timing", timing)
    said = text(capsys, *words)
    assert said.count("note: one rank: nothing is sent") == 1
    assert "no bound" not in said
    assert not re.search(r"\b(inf|nan)\b", said)
    assert all(not re.search("NaN|Infinity", json.dumps(p)) for p in data(capsys, *words))


def test_there_is_no_tuning_table_of_one_rank(capsys: Capture) -> None:
    assert "--tuning: one rank: NCCL makes no table; expected at least 2 ranks" in refused(
        capsys, *HGX, "--ranks", "1", "-b", "1M", "--tuning"
    )
