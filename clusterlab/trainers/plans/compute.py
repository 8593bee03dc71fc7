"""How fast a rank computes: a roofline of rates, and what it costs to issue an operation. Pure.

An op takes as long as its flops at the matrix rate or its bytes at the memory's, whichever is more; cores
take longer over exp and erf than over memory, so bytes of those have a rate of their own. A GPU runs behind
the host that issues its kernels, so that a phase takes what the GPU or the host needs, whichever is more, but
where the host waits for a number of the GPU's: then the GPU waits for the host's next kernels. A CPU does
both, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log

from clusterlab.core.dtypes import dtype
from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown
from clusterlab.trainers.plans.work import Op


@dataclass(frozen=True, slots=True)
class Compute:
    """One rank's rates. ``matmul``: (flops of a product, TFLOP/s) by size, ascending; between two sizes the
    rate goes along the logarithm of the size. ``function_GBps``: bytes of an op that computes exp and the
    like. ``issue_us``: of one kernel. ``behind``: a GPU behind its host.
    """

    name: str
    matmul: tuple[tuple[float, float], ...]
    attention_TFLOPs: float
    memory_GBps: float
    function_GBps: float
    issue_us: float
    behind: bool
    source: str

    def among(self, ranks: int) -> Compute:
        """When ``ranks`` share the device, as local ranks share a host's cores."""
        return replace(
            self,
            matmul=tuple((flops, rate / ranks) for flops, rate in self.matmul),
            attention_TFLOPs=self.attention_TFLOPs / ranks,
            memory_GBps=self.memory_GBps / ranks,
            function_GBps=self.function_GBps / ranks,
            issue_us=self.issue_us * ranks,
        )

    def matmul_TFLOPs(self, flops: float) -> float:
        """Of a product that large."""
        sizes = self.matmul
        if flops <= sizes[0][0]:
            return sizes[0][1]
        for (below, low), (above, high) in pairwise(sizes):
            if flops <= above:
                share = log(flops / below) / log(above / below)
                return low + share * (high - low)
        return sizes[-1][1]

    def op_us(self, op: Op) -> float:
        """One of ``op`` on the device, without its issue."""
        if op.kind == "function":
            return op.size_bytes / (self.function_GBps * 1e3)
        through_memory = op.size_bytes / (self.memory_GBps * 1e3)
        if op.kind == "memory" or not op.flops:
            return through_memory
        rate = self.matmul_TFLOPs(op.flops) if op.kind == "matmul" else self.attention_TFLOPs
        return max(op.flops / (rate * 1e6), through_memory)

    def time_us(self, ops: Iterable[Op]) -> float:
        """Of all of them, one after the other."""
        found = tuple(ops)
        device = sum(self.op_us(op) * op.count for op in found)
        issue = sum(self._issue_us(op) for op in found)
        if not self.behind:
            return device + issue
        return max(device + sum(self._issue_us(op) for op in found if op.kind == "wait"), issue)

    def _issue_us(self, op: Op) -> float:
        return self.issue_us * op.kernels * op.count


@dataclass(frozen=True, slots=True)
class _Gpu:
    bf16_TFLOPs: float
    matmul_share: float
    attention_share: float
    fp32_TFLOPs: float
    fp64_TFLOPs: float
    memory_GBps: float
    source: str


# Peaks without sparsity from the vendors' data sheets. matmul_share: the best bf16 torch.matmul found by
# mamf-finder, stas00/ml-engineering, compute/accelerator/README.md (TFLOP/s: A100 SXM 271.2 and PCIe 252.9 of
# 312, H100 794.5 and GH200 828.6 of 989, MI300X 668.4 of 1300, B200 1745 of 2250); where it has none, that of
# the same chip. attention_share of the peak: FlashAttention-2's on A100 (Dao 2023, "FlashAttention-2": 50 to
# 73 %) and H100 (Shah et al. 2024, "FlashAttention-3": 35 %); newer chips as H100.
_NVIDIA = "NVIDIA's data sheet; matmul as mamf-finder measured it"
_GPUS = {
    "A100-SXM4-40GB": _Gpu(312, 0.869, 0.6, 19.5, 19.5, 1555, _NVIDIA),
    "A100-SXM4-80GB": _Gpu(312, 0.869, 0.6, 19.5, 19.5, 2039, _NVIDIA),
    "A100-PCIe-40GB": _Gpu(312, 0.811, 0.6, 19.5, 19.5, 1555, _NVIDIA),
    "A100-PCIe-80GB": _Gpu(312, 0.811, 0.6, 19.5, 19.5, 1935, _NVIDIA),
    "H100-SXM5-80GB": _Gpu(989, 0.803, 0.35, 67, 67, 3350, _NVIDIA),
    "H200-SXM5-141GB": _Gpu(989, 0.803, 0.35, 67, 67, 4800, _NVIDIA),
    "GH200-120GB": _Gpu(989, 0.838, 0.35, 67, 67, 4000, _NVIDIA),
    "B200-SXM6-180GB": _Gpu(2250, 0.776, 0.35, 75, 37, 7700, _NVIDIA),
    "GB200": _Gpu(2500, 0.776, 0.35, 80, 40, 8000, _NVIDIA),
    "MI300X": _Gpu(1307, 0.514, 0.35, 163.4, 163.4, 5300, "AMD's data sheet; mamf-finder's matmul"),
}
_MEMORY_SHARE = 0.9
"""Of the peak that a long copy is taken to get: a probe knows better."""

_ISSUE_US = 5.0
"""Of one kernel from eager torch, taken: a probe knows better."""


def named_gpus() -> tuple[str, ...]:
    """Models whose rates are known."""
    return tuple(_GPUS)


def named_compute(gpu_model: str, element: str) -> Compute:
    """A GPU by the model that a fabric gives it (``H100-SXM5-80GB``). Raises UsageError for others."""
    found = _GPUS.get(gpu_model)
    if found is None:
        raise unknown("GPU", gpu_model, _GPUS, where="the rates of its roofline")
    kind = dtype(element)
    if kind.bytes == 2:
        rate, attention = found.bf16_TFLOPs * found.matmul_share, found.attention_share
        attention_rate = found.bf16_TFLOPs * attention
    else:
        rate = (found.fp64_TFLOPs if kind.bytes == 8 else found.fp32_TFLOPs) * found.matmul_share
        attention_rate = rate / 2
    return Compute(
        name=gpu_model,
        matmul=((1.0, rate),),
        attention_TFLOPs=attention_rate,
        memory_GBps=found.memory_GBps * _MEMORY_SHARE,
        function_GBps=found.memory_GBps * _MEMORY_SHARE,
        issue_us=_ISSUE_US,
        behind=True,
        source=found.source,
    )


def typed_compute(text: str) -> Compute:
    """``600,3000``: TFLOP/s of matrix products and GB/s of memory, as one types them."""
    words = text.split(",")
    try:
        matmul, memory = (float(word) for word in words)
    except ValueError:
        matmul = memory = 0.0
    if len(words) != 2 or not (0 < matmul < 1e6 and 0 < memory < 1e6):
        raise UsageError(
            f"{text!r}", where="--compute", expected="TFLOP/s,GB/s such as 600,3000, or probe"
        )
    return Compute(
        name="as typed",
        matmul=((1.0, matmul),),
        attention_TFLOPs=matmul / 2,
        memory_GBps=memory,
        function_GBps=memory,
        issue_us=_ISSUE_US,
        behind=True,
        source="as typed",
    )
