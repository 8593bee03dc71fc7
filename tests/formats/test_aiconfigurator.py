"""aiconfigurator's system sheets as plain data."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats.aiconfigurator import parse_aiconfigurator, recognise

SHEET = """
data_dir: data/h100_sxm
gpu: {mem_capacity: 85899345920, sm_version: 90}
node:
  num_gpus_per_node: 8
  inter_node_bw: 50000000000
  intra_node_bw: 450e9
  pcie_bw: 64000000000
  p2p_latency: 0.00001
"""


def test_rates_are_in_GB_per_second_and_latencies_in_microseconds() -> None:
    sheet = parse_aiconfigurator(SHEET, file="x")
    assert (sheet.name, sheet.gpus, sheet.sm_version) == ("h100_sxm", 8, 90)
    assert sheet.GBps == {"inter_node": 50.0, "intra_node": 450.0, "pcie": 64.0}
    assert sheet.latency_us == {"p2p": 10.0}
    assert sheet.gpus_per_rack is None


def test_only_sheets_are_recognised() -> None:
    assert recognise(SHEET)
    assert not recognise("gpu:\n  mem_bw: 1\n")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("node:\n  num_gpus_per_node: 0\n", "x:2: node.num_gpus_per_node"),
        ("node:\n  num_gpus_per_node: 99999\n", "x:2: node.num_gpus_per_node"),
        ("node:\n  num_gpus_per_node: 2\n  pcie_bw: fast\n", "x:3: node.pcie_bw"),
        ("node:\n  num_gpus_per_node: 2\n  pcie_bw: -1\n", "x:3: node.pcie_bw"),
        ("node: 7\n", "x:1: node"),
    ],
)
def test_errors_name_line_and_field(text: str, where: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_aiconfigurator(text, file="x")
    assert (caught.value.where or "").startswith(where)
