"""Run by test_kernel.py in processes of their own, because Triton's interpreter is chosen at its import.

``interpret``: the kernel by Triton's interpreter against torch's copy. ``machine``: as the probe calls it.
``compile``: to PTX for an H100.
"""

from __future__ import annotations

import random
import sys

SIZES = (1, 255, 1023, 1024, 1025, 4095, 4096, 4097, 8191, 20_000)
PROGRAMS = (1, 2, 3, 7, 132)
BEYOND = 97
"""Elements behind the copied ones that must stay as they are."""


def interpret() -> None:
    import torch

    from clusterlab.bench.p2p.sm_kernel import THREADS, copy_kernel

    draw = random.Random(4)
    cases = [
        (n, programs, dtype, width)
        for n in SIZES
        for programs in PROGRAMS
        for dtype, width in (("int8", 1), ("int16", 1), ("int32", 1), ("int64", 1), ("int64", 2))
    ]
    for n, programs, name, width in draw.sample(cases, 90):
        dtype = getattr(torch, name)
        info = torch.iinfo(dtype)
        source = torch.randint(info.min, info.max, (n + BEYOND,), dtype=dtype)
        target = torch.randint(info.min, info.max, (n + BEYOND,), dtype=dtype)
        expected = target.clone()
        expected[:n] = source[:n]
        before = source.clone()
        copy_kernel[(programs,)](source, target, n, TILE=THREADS * width, num_warps=32)
        assert torch.equal(target, expected), (n, programs, name, width)
        assert torch.equal(source, before), (n, programs, name, width)
        print(n, programs, name, width)


def machine() -> None:
    """The machine's kernel steps: every access, from the right memory into the right one."""
    import dataclasses

    import pytest

    from clusterlab.bench.p2p.plan import ACCESS_BYTES, KernelStep
    from clusterlab.core.p2p import Touch
    from tests.bench.p2p.cpu_machine import CpuMachine, without_streams

    with pytest.MonkeyPatch.context() as patch:
        without_streams(patch)
        for touch in (Touch("load", 0, 1), Touch("store", 0, 1), Touch("local", 1, 1)):
            for width in ACCESS_BYTES:
                step = KernelStep(touch, 3, width, 40 * 256)
                made = CpuMachine(2, 64 * 256)
                assert made.kernel(step).wrong is None, step
                assert made.enabled == [(touch.gpu, touch.peer)]
                spoilt = CpuMachine(2, 64 * 256, corrupt=300).kernel(step).wrong
                assert spoilt is not None
                assert dataclasses.astuple(spoilt)[:2] == (1, 300)
                print(touch.access, width)


def compile_for_h100() -> None:
    """One line for each width: bytes asked for, bytes that a load and a store of the PTX move."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from clusterlab.bench.p2p.ptx import load_bytes
    from clusterlab.bench.p2p.sm_kernel import THREADS, WARPS, copy_kernel

    aligned = {(i,): [["tt.divisibility", 16]] for i in range(3)}
    for asked, pointer, width in (
        (1, "*i8", 1), (2, "*i16", 1), (4, "*i32", 1), (8, "*i64", 1), (16, "*i64", 2),
    ):  # fmt: skip
        signature = {"src": pointer, "dst": pointer, "n": "i32", "TILE": "constexpr"}
        source = ASTSource(copy_kernel, signature, {"TILE": THREADS * width}, aligned)
        made = triton.compile(
            source, target=GPUTarget("cuda", 90, 32), options={"num_warps": WARPS}
        )
        ptx = made.asm["ptx"]
        print(asked, load_bytes(ptx), load_bytes(ptx.replace("st.global", "ld.global")))


if __name__ == "__main__":
    {"interpret": interpret, "machine": machine, "compile": compile_for_h100}[sys.argv[1]]()
