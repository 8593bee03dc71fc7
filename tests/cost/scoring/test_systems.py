"""Systems of which no table was at hand: each is built as itself, and its plateau is what its links allow.

The ranges are a share of the line rate that limits each: links of a GPU, or NICs of a node.
"""

from __future__ import annotations

import pytest

from clusterlab.core.collectives import busbw_factor
from clusterlab.cost.scoring.machine import description_of, machine_of
from clusterlab.cost.scoring.measured import MeasuredPoint
from clusterlab.cost.scoring.scored import predict_points

SIZE = 8 << 30


def point(gpu: str, intra: str, nodes: int, each: int, inter: str) -> MeasuredPoint:
    return MeasuredPoint(
        *("t", "somewhere", gpu, nodes, each, nodes * each, intra, inter, "all_reduce", "float"),
        *(False, SIZE, 1.0, "", "", "", True, 1, 1),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("gpu", "intra", "nodes", "each", "inter", "host", "least", "most"),
    [
        ("H200-SXM-141G", "nvswitch3-900", 1, 8, "none", "hgx-h200", 400, 500),
        ("H200", "NVSwitch", 4, 8, "IB NDR 8x400G", "hgx-h200", 300, 400),
        ("H20", "nvswitch3-900", 1, 8, "none", "hgx-h100", 330, 500),
        ("B200-SXM", "nvswitch4-1800", 8, 8, "8x400G RoCE", "hgx-b200", 280, 400),
        ("B300", "nvswitch4-1800", 1, 8, "none", "dgx-b300", 650, 950),
        ("B300", "NV18", 4, 8, "8x800G IB XDR", "dgx-b300", 600, 800),
        ("GB300", "nvlink5-nvl72", 18, 4, "none (MNNVL)", "gb300-nvl72", 650, 1000),
        ("GB200", "nvlink5-nvl72", 9, 4, "NVLink", "gb200-nvl72", 650, 1000),
        ("GB200 NVL4", "nvlink5-mesh", 1, 4, "none", "mesh", 450, 722),
        ("MI300X", "xgmi", 1, 8, "none", "mi300x", 270, 336),
        ("MI325X", "Infinity Fabric", 8, 8, "8x400G RoCE (Pollara)", "mi300x", 280, 400),
        ("MI355X", "xgmi-mesh", 1, 8, "none", "mi300x", 320, 404),
        ("MI300A", "xgmi", 1, 4, "none", "mesh", 200, 288),
        ("MI300A", "xgmi-mesh", 4, 4, "Slingshot-11", "mesh", 60, 100),
        ("A100-SXM4-40G", "nvlink3-mesh", 1, 4, "none", "mesh", 190, 240),
        ("A100-SXM4-40G", "nvlink3-mesh", 4, 4, "4x Slingshot", "mesh", 60, 100),
        ("A100-SXM4-80G", "nvswitch2-600", 8, 8, "8xHDR", "hgx-a100", 150, 200),
        ("A800-SXM4-80G", "nvswitch2-400", 4, 8, "4x200G RoCE", "hgx-a100", 70, 100),
        ("V100-SXM2-32G", "nvlink2", 1, 8, "none", "dgx-1v", 95, 150),
        ("V100-SXM3-32G", "nvswitch1", 1, 16, "none", "dgx-2", 95, 150),
        ("GH200", "none", 8, 1, "1x400G IB NDR", "alps-gh200", 40, 50),
        ("GH200-96G", "nvlink-c2c", 8, 1, "Slingshot", "alps-gh200", 18, 25),
        ("GH200", "nvlink4-mesh", 4, 4, "4x200G Slingshot-11 (cxi)", "alps-gh200", 70, 100),
        ("H100-SXM-64G", "nvlink4-mesh", 4, 4, "4x NDR200", "mesh", 70, 100),
        ("H100-SXM-80G", "nvswitch3-900", 4, 8, "100GbE TCP", "hgx-h100", 2, 12.5),
        ("H100-SXM-80G", "nvswitch3-900", 4, 8, "EFA", "hgx-h100", 250, 400),
        ("H200", "nvswitch3-900", 4, 8, "", "hgx-h200", 250, 400),
        ("L40S", "pcie4", 2, 1, "1x400G RoCE", "ports", 10, 50),
        ("GB10", "none", 2, 1, "200G QSFP", "ports", 10, 25),
        ("A100-PCIE-40G", "pcie4", 1, 2, "none", "pcie", 5, 31.5),
        ("RTX A6000", "NV4", 1, 2, "none", "ports", 20, 56),
        ("RTX 3090", "nvlink bridge", 1, 2, "none", "ports", 20, 56),
    ],
)  # fmt: skip
def test_a_plateau_is_within_what_limits_it(
    gpu: str, intra: str, nodes: int, each: int, inter: str, host: str, least: float, most: float
) -> None:
    one = point(gpu, intra, nodes, each, inter)
    machine = machine_of(description_of(one))
    assert machine.build.host == host and machine.unknown == ()
    (scored,) = predict_points([one])
    assert scored.predicted_us is not None, scored.reason
    busbw = SIZE * busbw_factor("all_reduce", nodes * each) / (scored.predicted_us * 1e3)
    assert least <= busbw <= most
