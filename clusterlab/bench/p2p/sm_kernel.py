"""The kernel that copies with plain loads and stores: Triton's (the optional extra ``triton``).

Imported only where it runs: the import takes half a second and fails where Triton is not installed.
"""

# No `from __future__ import annotations`: Triton reads `tl.constexpr` from the annotation itself.
import triton
import triton.language as tl

THREADS = 1024
"""Threads of a program: the most a block has, so that two programs fill an SM and one is alone on its own
while programs are no more than SMs.
"""

WARPS = THREADS // 32


def _copy(src, dst, n, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Copy ``n`` elements: programs take blocks of four tiles in turn.

    A thread's elements of a tile are one access (TILE is a multiple of THREADS), and its four loads are
    under way before the first store: a link's latency is a microsecond, one access at a time would wait.
    """
    block = 4 * TILE
    lane = tl.arange(0, TILE)
    stride = tl.num_programs(0).to(tl.int64) * block
    base = tl.program_id(0).to(tl.int64) * block
    while base < n:  # no range: Triton 3.6's interpreter and numpy 2.4 do not agree on one
        at0 = base + lane
        at1 = at0 + TILE
        at2 = at1 + TILE
        at3 = at2 + TILE
        value0 = tl.load(src + at0, mask=at0 < n)
        value1 = tl.load(src + at1, mask=at1 < n)
        value2 = tl.load(src + at2, mask=at2 < n)
        value3 = tl.load(src + at3, mask=at3 < n)
        tl.store(dst + at0, value0, mask=at0 < n)
        tl.store(dst + at1, value1, mask=at1 < n)
        tl.store(dst + at2, value2, mask=at2 < n)
        tl.store(dst + at3, value3, mask=at3 < n)
        base += stride


copy_kernel = triton.jit(_copy)
