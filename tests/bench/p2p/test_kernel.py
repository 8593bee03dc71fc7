"""The kernel that loads and stores: against a plain copy by Triton's interpreter, and as PTX; no GPU."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clusterlab.bench.p2p.ptx import load_bytes

CHECKS = Path(__file__).with_name("kernel_checks.py")
ROOT = Path(__file__).parents[3]

with_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed (Linux only)"
)


def checks(what: str, tmp_path: Path, **environ: str) -> list[list[str]]:
    """The words of each line that a check printed."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_")}
    own |= {"PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": str(tmp_path)} | environ
    done = subprocess.run(
        [sys.executable, "-W", "error", str(CHECKS), what],
        capture_output=True, text=True, env=own, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [line.split() for line in done.stdout.splitlines()]


@with_triton
def test_the_kernel_copies_what_torch_copies_and_nothing_behind_it(tmp_path: Path) -> None:
    """Sizes around tiles and blocks, fewer and more programs than blocks, every width."""
    done = checks("interpret", tmp_path, TRITON_INTERPRET="1")
    assert len(done) == 90
    assert {words[2] for words in done} == {"int8", "int16", "int32", "int64"}


@with_triton
def test_the_probe_runs_it_from_and_into_the_right_memory(tmp_path: Path) -> None:
    """Loads, stores and both at home, at every width; a spoilt byte is found."""
    assert len(checks("machine", tmp_path, TRITON_INTERPRET="1")) == 15


@with_triton
def test_an_access_is_compiled_as_wide_as_it_is_called(tmp_path: Path) -> None:
    """The figure by width means something only if the compiler neither joins nor splits accesses."""
    widths = [[int(word) for word in words] for words in checks("compile", tmp_path)]
    assert [(asked, loaded) for asked, loaded, _ in widths] == [(w, w) for w in (1, 2, 4, 8, 16)]
    assert all(both == asked for asked, _, both in widths)


@pytest.mark.parametrize(
    ("ptx", "width"),
    [
        ("@%p2 ld.global.v2.b64 { %rd11, %rd12 }, [ %rd13 + 0 ];", 16),
        ("ld.global.L1::evict_first.v4.u32 {%r1}, [%rd1];", 16),
        ("ld.global.b8 %r1, [%rd1];\n st.global.v2.b64 [%rd1], {%r1};", 1),
        ("ld.global.f32 %f1, [%rd1];\nld.global.b32 %r1, [%rd2];", 4),
        ("ld.global.b32 %r1, [%rd1];\nld.global.b64 %r1, [%rd2];", None),
        ("ld.param.b64 %rd1, [param_0];", None),
        ("", None),
    ],
)
def test_the_width_of_loads_is_read_from_ptx(ptx: str, width: int | None) -> None:
    assert load_bytes(ptx) == width
