"""The links that nvidia-smi nvlink -s lists."""

from __future__ import annotations

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.formats.nvlink_s import parse_nvlink_s, recognise

TEXT = """GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-aa)
\t Link 0: 25.781 GB/s
\t Link 1: <inactive>
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-bb)
         Link 0: 26.562 GB/s
         [...]
         Link 17: 26.562 GB/s
GPU 2: NVIDIA L4 (UUID: GPU-cc)
NVML: Unable to retrieve NVLink information as all links are inActive
"""


def test_rates_inactive_links_and_cuts_are_told_apart() -> None:
    assert recognise(TEXT)
    v100, h100, l4 = parse_nvlink_s(TEXT, file="t")
    assert (v100.model, v100.uuid, v100.links) == (
        "Tesla V100-SXM2-32GB",
        "GPU-aa",
        {0: 25.781, 1: None},
    )
    assert (h100.links, h100.elided) == ({0: 26.562, 17: 26.562}, True)
    assert (l4.links, l4.all_inactive) == ({}, True)


def test_the_same_gpu_printed_again_counts_once() -> None:
    assert len(parse_nvlink_s(TEXT + TEXT, file="t")) == 3


def test_lines_that_are_no_rate_are_kept_apart() -> None:
    text = "GPU 0: A (UUID: u)\n Link 0: 25 GB/s\n Link 1: x GB/s\n Link 999: 25 GB/s\n Link 2: 0 GB/s\n"
    (gpu,) = parse_nvlink_s(text, file="t")
    assert gpu.links == {0: 25.0, 2: None}
    assert gpu.unreadable == [3, 4]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "t:1: no GPU of nvidia-smi nvlink -s"),
        ("Link 0: 25 GB/s\n", "t:1: a link before any GPU"),
        ("GPU 0: A (UUID: u)\nGPU 0: A (UUID: v)\n", "t:2: GPU 0 a second time, and another one"),
    ],
)
def test_what_cannot_be_one_host_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_nvlink_s(text, file="t")
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GPU 0: NVIDIA A100 (UUID: GPU-1)\n",  # nvidia-smi -L
        "GPU 0: NVIDIA A100 (UUID: GPU-1)\n  Link 0, P2P is supported: true\n",  # nvlink -c
        "Link 0: 25 GB/s\n",
    ],
)
def test_other_files_are_not_claimed(text: str) -> None:
    assert not recognise(text)
