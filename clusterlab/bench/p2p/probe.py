"""Walks through a plan on a machine and keeps what came; the machine is CUDA's, or a test's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from clusterlab.bench.p2p.plan import CopyStep, KernelStep
from clusterlab.core.p2p import CopyRow, KernelRow, Times, Wrong


@dataclass(frozen=True, slots=True)
class Measured:
    """What a machine says of one step: each batch's time per operation (µs), and its check."""

    batches_us: Sequence[float]
    ahead: bool
    wrong: Wrong | None
    compiled_bytes: int | None = None


class Machine(Protocol):
    """Does one step and checks its data."""

    def copy(self, step: CopyStep) -> Measured:
        """Copy, as ``step`` says."""
        ...

    def kernel(self, step: KernelStep) -> Measured:
        """Run the kernel, as ``step`` says."""
        ...


Guard = Callable[[str], AbstractContextManager[None]]
"""Around every step: what it is."""


def times_of(measured: Measured) -> Times:
    """Median and extremes of at least one batch."""
    times = measured.batches_us
    return Times(median(times), min(times), max(times), len(times), ahead=measured.ahead)


def copy_rows(machine: Machine, steps: Sequence[CopyStep], guard: Guard) -> Iterator[CopyRow]:
    """A row for each step, as soon as it is measured."""
    for step in steps:
        with guard(f"copy {step.way} of {step.size_bytes} B"):
            measured = machine.copy(step)
        yield CopyRow(step.way, step.size_bytes, times_of(measured), measured.wrong)


def kernel_rows(machine: Machine, steps: Sequence[KernelStep], guard: Guard) -> Iterator[KernelRow]:
    """A row for each step, as soon as it is measured."""
    for step in steps:
        what = f"kernel: {step.touch}, {step.programs} programs, {step.access_bytes} B per access"
        with guard(what):
            measured = machine.kernel(step)
        yield KernelRow(
            step.touch,
            step.programs,
            step.access_bytes,
            measured.compiled_bytes,
            step.size_bytes,
            times_of(measured),
            measured.wrong,
        )
