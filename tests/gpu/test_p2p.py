"""The probe of the ways between GPUs on real ones: what it copies is right, and its figures hang together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clusterlab.launch.gpus import visible_gpus

pytestmark = pytest.mark.gpu

P2P = [sys.executable, "-m", "clusterlab", "p2p"]

KERNEL = """
import torch
from clusterlab.bench.p2p.sm_kernel import THREADS, WARPS, copy_kernel
for n in (1, 1023, 1024, 4097, 1_000_003):
    for programs in (1, 3, 500):
        for dtype, width in ((torch.int8, 1), (torch.int32, 1), (torch.int64, 2)):
            source = torch.randint(-99, 99, (n + 64,), device="cuda").to(dtype)
            target = torch.full_like(source, 7)
            expected = target.clone()
            expected[:n] = source[:n]
            copy_kernel[(programs,)](source, target, n, TILE=THREADS * width, num_warps=WARPS)
            assert torch.equal(target, expected), (n, programs, dtype, width)
print("right")
"""

ALONE = """
import sys
from pathlib import Path
from clusterlab.bench.p2p.nccl_ranks import connect_all_pairs, nccl_log_file
folder = Path(sys.argv[1])
outcome = connect_all_pairs(1, folder, 120.0)
print(outcome.exit_code, "NCCL version" in nccl_log_file(folder, 0).read_text())
"""


def need(gpus: int) -> None:
    if visible_gpus() < gpus:
        pytest.skip(f"needs {gpus} GPU{'s' * (gpus > 1)}")


def run(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_INTERPRET")}
    return subprocess.run(
        [*P2P, *words], capture_output=True, text=True, env=own | environ, check=False, timeout=280
    )


def python(text: str, *words: str) -> str:
    own = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_INTERPRET")}
    done = subprocess.run(
        [sys.executable, "-c", text, *words],
        capture_output=True, text=True, env=own, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def report(*words: str, code: int = 0, **environ: str) -> dict[str, Any]:
    done = run(*words, "--json", **environ)
    assert done.returncode == code, done.stderr[-3000:]
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def largest(data: dict[str, Any], src: object, dst: object, *, both: bool = False) -> float:
    """GB/s of the largest copy of one way."""
    way = {"src": src, "dst": dst, "both": both}
    rows = [row for row in data["copies"] if row["way"] == way]
    return float(max(rows, key=lambda row: row["size_bytes"])["GBps"])


@pytest.fixture(scope="module")
def one_gpu() -> dict[str, Any]:
    """The probe with one GPU shown."""
    need(1)
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    return report("-b", "4K", "-n", "5", CUDA_VISIBLE_DEVICES=first)


def test_one_gpu_copies_right_and_faster_within_itself_than_with_the_host(
    one_gpu: dict[str, Any],
) -> None:
    assert one_gpu["findings"] == []
    assert all(row["wrong"] is None for row in one_gpu["copies"] + one_gpu["kernel"])
    assert largest(one_gpu, 0, 0) > largest(one_gpu, "host", 0) > 1
    assert largest(one_gpu, "host", 0, both=True) > 1.2 * largest(one_gpu, "host", 0)
    for row in one_gpu["copies"]:
        assert 0 < row["times"]["min_us"] <= row["times"]["median_us"] <= row["times"]["max_us"]
    big = [row for row in one_gpu["copies"] if row["size_bytes"] >= 1 << 20]
    assert all(row["times"]["ahead"] for row in big), "the host kept ahead of the GPU"


def test_one_gpus_kernel_is_compiled_as_asked_and_grows_with_sms(one_gpu: dict[str, Any]) -> None:
    pytest.importorskip("triton")
    rows = {(r["programs"], r["access_bytes"]): r for r in one_gpu["kernel"]}
    assert all(r["compiled_bytes"] == r["access_bytes"] for r in rows.values())
    assert rows[8, 16]["GBps"] > 3 * rows[1, 16]["GBps"]
    assert rows[1, 16]["GBps"] > rows[1, 4]["GBps"]
    assert "of links between GPUs this says nothing" in one_gpu["said"][0]


def test_a_spoilt_byte_is_found_in_every_copy_and_by_the_kernels_check() -> None:
    need(1)
    words = ("-b", "1M", "-e", "1M", "-n", "1", "--sms", "4", "--access", "16", "--no-nccl")
    data = report(*words, "--corrupt", "777", code=1)
    rows = data["copies"] + data["kernel"]
    assert all((r["wrong"]["count"], r["wrong"]["index"]) == (1, 777) for r in rows)
    codes = {finding["code"] for finding in data["findings"]}
    assert codes >= {"P2P_COPY_WRONG"}
    assert ("P2P_KERNEL_WRONG" in codes) == bool(data["kernel"])


def test_the_compiled_kernel_copies_sizes_that_are_no_multiple_of_anything() -> None:
    need(1)
    pytest.importorskip("triton")
    assert python(KERNEL) == "right\n"


def test_a_rank_leaves_nccls_log(tmp_path: Path) -> None:
    need(1)
    assert python(ALONE, str(tmp_path)).split() == ["0", "True"]


@pytest.fixture(scope="module")
def two_gpus() -> dict[str, Any]:
    """The probe of the first two GPUs."""
    need(2)
    return report("--pairs", "0-1", "-n", "7")


def test_two_gpus_copy_right_both_ways_and_both_at_once(two_gpus: dict[str, Any]) -> None:
    assert two_gpus["findings"] == []
    there, back = largest(two_gpus, 0, 1), largest(two_gpus, 1, 0)
    both = largest(two_gpus, 0, 1, both=True)
    assert there == pytest.approx(back, rel=0.1)
    assert 0.9 * there < both < 2.1 * there
    link = next((x for x in two_gpus["links"] if (x["src"], x["dst"]) == (0, 1)), None)
    if link is not None and link["type"] == "NVL" and link["GBps"]:
        assert 0.8 < there / link["GBps"] < 1.3
        assert both > 1.5 * there


def test_two_gpus_kernel_says_what_loads_and_stores_reach(two_gpus: dict[str, Any]) -> None:
    pytest.importorskip("triton")
    if not any(a["cuda"] for a in two_gpus["access"]):
        pytest.skip("needs GPUs that may use each other's memory")
    kinds = {row["touch"]["access"] for row in two_gpus["kernel"]}
    assert kinds == {"load", "store"}
    assert len(two_gpus["said"]) >= 2
    engine = largest(two_gpus, 0, 1)
    assert max(row["GBps"] for row in two_gpus["kernel"]) < 1.3 * engine


def test_nccl_connects_two_gpus_by_p2p_and_without_it_by_another_way(
    two_gpus: dict[str, Any],
) -> None:
    paths = {(p["src"], p["dst"]): p["transport"] for p in two_gpus["nccl"]["paths"]}
    assert {(0, 1), (1, 0)} <= set(paths)
    if all(a["cuda"] for a in two_gpus["access"]) and "NCCL_P2P_DISABLE" not in os.environ:
        assert paths[0, 1].startswith("P2P/")
    words = ("--no-kernel", "-b", "1M", "-e", "1M", "-n", "1")
    without = report(*words, NCCL_P2P_DISABLE="1")["nccl"]["paths"]
    assert without
    assert not any(p["transport"].startswith("P2P/") for p in without)
