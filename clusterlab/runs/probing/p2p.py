"""``clusterlab p2p``: NCCL's paths, then copies and the kernel, with the fabric's figures beside them."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from clusterlab.bench.p2p.access import access_table, cuda_may, nvml_status, visible_gpus
from clusterlab.bench.p2p.deadline import deadline
from clusterlab.bench.p2p.nccl_ranks import connect_all_pairs, nccl_log_file
from clusterlab.bench.p2p.plan import CopyStep, KernelStep, copy_steps, kernel_steps, parse_pairs
from clusterlab.bench.p2p.probe import Machine, copy_rows, kernel_rows
from clusterlab.core.errors import ExitCode, UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.core.p2p import (
    CopyRow,
    KernelRow,
    NcclPath,
    NcclPaths,
    P2pGpu,
    P2pReport,
    PeerAccess,
)
from clusterlab.core.sizes import human_size
from clusterlab.formats.nccl_log import parse_nccl_log
from clusterlab.formats.nccl_log_pairs import nvls_channels, pair_transports
from clusterlab.launch.gpus import visible_gpus as count_gpus
from clusterlab.launch.local_outcome import LocalOutcome
from clusterlab.report.console.step_progress import StepProgress
from clusterlab.runs.probing.p2p_links import links_of
from clusterlab.verdict.p2p import sentences, wrong_data

KERNEL_MULTIPLE = 256
"""Bytes: sizes of the kernel divide by this, so that no access is split at an end."""

_ROOM = 4 * (64 << 20)  # leads of batches, and what CUDA itself takes


@dataclass(frozen=True, slots=True)
class P2pOptions:
    """What was typed. ``sizes_bytes`` are the copies', ``kernel_bytes`` the kernel's; ``batches`` timed each.

    ``programs`` and ``access_bytes``: the kernel's sweep. ``corrupt`` spoils that byte of what arrives.
    """

    sizes_bytes: tuple[int, ...]
    pairs: str = "all"
    batches: int = 11
    kernel: bool = True
    programs: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    access_bytes: tuple[int, ...] = (4, 8, 16)
    kernel_bytes: int = 128 << 20
    nccl: bool = True
    fabric: str | None = None
    deadline_s: float = 300.0
    corrupt: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be measured on which GPUs, and what will not, and why."""

    gpus: tuple[P2pGpu, ...]
    access: tuple[PeerAccess, ...]
    copies: list[CopyStep]
    kernel: list[KernelStep]
    notes: tuple[str, ...] = ()


MakeMachine = Callable[[Plan, P2pOptions], Machine]


def run_p2p(options: P2pOptions, show: Callable[[P2pReport], None]) -> int:
    """Measure and ``show``; the exit code. Raises UsageError without a GPU, before anything starts."""
    count = count_gpus()
    if count == 0:
        raise UsageError(
            "no GPU",
            where="p2p",
            expected="at least one that CUDA shows this process",
            fix="see nvidia-smi and CUDA_VISIBLE_DEVICES; `clusterlab doctor` says what hides them",
        )
    parse_pairs(options.pairs, count)
    # First, because ranks are forked and CUDA does not survive a fork.
    nccl, nccl_notes, nccl_findings, nccl_code = _nccl(options, count)
    if nccl_code >= 128:  # Ctrl-C while the ranks ran
        return nccl_code
    gpus = visible_gpus()
    plan = plan_of(gpus, access_table(gpus, cuda_may, nvml_status), options)
    _refuse_too_large(plan, options)
    report = measure(plan, options, _cuda_machine)
    report = replace(
        report,
        nccl=nccl,
        versions=(*_versions(), *report.versions),
        notes=(*report.notes, *nccl_notes),
        findings=(*report.findings, *nccl_findings),
    )
    show(report)
    return nccl_code or int(ExitCode.FINDING if report.findings else ExitCode.OK)


def plan_of(gpus: tuple[P2pGpu, ...], access: tuple[PeerAccess, ...], options: P2pOptions) -> Plan:
    """What ``options`` ask for on these GPUs."""
    pairs = parse_pairs(options.pairs, len(gpus))
    notes = []
    if len(gpus) == 1:
        notes.append(
            "one GPU: no way between GPUs is measured, and the kernel runs in its own memory"
        )
    elif options.kernel and not any(a.cuda for a in access):
        notes.append("no GPU may use another's memory: the kernel runs in GPU 0's own")
    steps: list[KernelStep] = []
    if options.kernel and importlib.util.find_spec("triton") is None:
        notes.append(
            "no kernel was run: Triton is not installed (pip install 'clusterlab[triton]')"
        )
    elif options.kernel:
        steps = kernel_steps(
            gpus,
            pairs,
            access,
            programs=options.programs,
            access_bytes=options.access_bytes,
            size_bytes=options.kernel_bytes,
        )
    copies = copy_steps(len(gpus), pairs, options.sizes_bytes)
    return Plan(gpus, access, copies, steps, tuple(notes))


def measure(plan: Plan, options: P2pOptions, make_machine: MakeMachine) -> P2pReport:
    """All of ``plan``, with the fabric's figures, what follows from it, and a finding for wrong data."""
    links = links_of(plan.gpus, options.fabric)
    machine = make_machine(plan, options)
    progress = StepProgress(len(plan.copies) + len(plan.kernel))
    guard = partial(deadline, options.deadline_s)
    copies: list[CopyRow] = []
    kernel: list[KernelRow] = []
    try:
        for copy in copy_rows(machine, plan.copies, guard):
            progress.step(f"copy {copy.way} {human_size(copy.size_bytes)}")
            copies.append(copy)
        for row in kernel_rows(machine, plan.kernel, guard):
            progress.step(f"kernel {row.touch}, {row.programs} SMs, {row.access_bytes} B")
            kernel.append(row)
    finally:
        progress.close()
    notes = [*plan.notes, *links.notes]
    odd = {
        r.access_bytes: r.compiled_bytes
        for r in kernel
        if r.compiled_bytes not in (None, r.access_bytes)
    }
    notes += [f"accesses of {want} bytes were compiled to {got}" for want, got in odd.items()]
    times = [*(row.times for row in copies), *(row.times for row in kernel)]
    if not all(one.ahead for one in times):
        notes.append(
            "h: the host queued operations more slowly than the GPU did them; its cost is in the time"
        )
    report = P2pReport(
        plan.gpus,
        plan.access,
        tuple(copies),
        tuple(kernel),
        links.figures,
        None,
        links.fabric,
        notes=tuple(notes),
        findings=tuple(wrong_data(copies, kernel)),
    )
    return replace(report, said=tuple(sentences(report)))


def _cuda_machine(plan: Plan, options: P2pOptions) -> Machine:
    from clusterlab.bench.p2p.cuda_machine import CudaMachine

    return CudaMachine(len(plan.gpus), _largest(plan), options.batches, options.corrupt)


def _largest(plan: Plan) -> int:
    return max([s.size_bytes for s in plan.copies] + [s.size_bytes for s in plan.kernel])


def _refuse_too_large(plan: Plan, options: P2pOptions) -> None:
    """Two buffers of the largest size on each GPU, and two pinned in the host's memory."""
    import psutil
    import torch

    largest = _largest(plan)
    free = {f"GPU {g.index}": torch.cuda.mem_get_info(g.index)[0] - _ROOM for g in plan.gpus}
    free["the host"] = int(psutil.virtual_memory().available)
    where, least = min(free.items(), key=lambda item: item[1])
    if 2 * largest > least:
        raise UsageError(
            f"two buffers of {human_size(largest)}",
            where="-e" if largest == max(options.sizes_bytes) else "--kernel-size",
            expected=f"at most {human_size(max(0, least // 2))}, half of what is free on {where}",
        )


def _nccl(
    options: P2pOptions, count: int
) -> tuple[NcclPaths | None, list[str], list[Finding], int]:
    """NCCL's paths, or a note why there are none; findings and the exit code of ranks that failed."""
    if not options.nccl:
        return None, [], [], 0
    if count < 2:
        return None, ["one GPU: NCCL connects nothing"], [], 0
    with tempfile.TemporaryDirectory(prefix="clusterlab-p2p-") as name:
        folder = Path(name)
        outcome = connect_all_pairs(count, folder, options.deadline_s)
        logs = [nccl_log_file(folder, rank) for rank in range(count)]
        text = "\n".join(log.read_text(errors="replace") for log in logs if log.exists())
        if outcome.exit_code:
            return None, [], [_failed(outcome, folder)], outcome.exit_code
    return (*paths_of(text), [], 0)


def paths_of(text: str) -> tuple[NcclPaths | None, list[str]]:
    """What NCCL's log ``text`` says of all pairs, or a note that it says nothing. Ranks are GPUs."""
    try:
        log = parse_nccl_log(text, file="NCCL_DEBUG_FILE")
    except UsageError as error:
        return None, [f"NCCL left no log: {error.message}"]
    paths = tuple(
        NcclPath(p.src_rank, p.dst_rank, p.transport, p.use, p.channels)
        for p in pair_transports(log.connections)
    )
    version = log.versions[0] if log.versions else None
    notes = [] if paths else ["NCCL's log names no connection"]
    return NcclPaths(version, paths, nvls_channels(log.lines)), notes


def _failed(outcome: LocalOutcome, folder: Path) -> Finding:
    """The last warnings of each rank go with it: the folder does not stay."""
    said = []
    for log in sorted(folder.glob("*.log")):
        lines = log.read_text(errors="replace").splitlines()
        said += [
            f"{log.stem}: {line.strip()}" for line in lines if "WARN" in line or "Error" in line
        ][-4:]
    return Finding(
        "P2P_NCCL_FAILED",
        Severity.ERROR,
        (outcome.message or f"ranks ended with {outcome.exit_code}", *said[:16]),
        "`clusterlab doctor` says whether ranks share or miss GPUs; NCCL_P2P_DISABLE=1 shows whether peer"
        " access is what fails; --no-nccl measures the rest without it",
    )


def _versions() -> tuple[tuple[str, str], ...]:
    import torch

    found = [("torch", str(torch.__version__))]
    if torch.version.cuda:
        found.append(("CUDA", torch.version.cuda))
    spec = importlib.util.find_spec("triton")
    if spec is not None:
        from importlib.metadata import version

        found.append(("triton", version("triton")))
    return tuple(found)
