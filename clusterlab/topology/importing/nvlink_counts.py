"""NVLink counts between GPU pairs (NV12) to links: direct bundles, or one switch that all GPUs share.

On an NVSwitch system ``NV18`` to each of seven peers is one bundle of 18 links, not seven; on a mesh
(DGX-1, four A100 without switches) the bundles are separate. They add up to more links than a GPU has
only where there is a switch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.smi_text import shortened
from clusterlab.topology.importing.pci_tree import Pair, both_ways
from clusterlab.topology.parts import Device, Link

MOST_LINKS = 18
"""NVLinks of a GPU: P100 4, V100 6, A100 12, H100 to B300 18 (NVIDIA's data sheets)."""

_FULL_BUNDLES = frozenset({6, 8, 12, 18})
"""What a switched V100, A800/H800, A100, H100 shows to every peer."""


@dataclass(frozen=True)
class NvlinkPart:
    """The NVSwitch devices (one for each group of GPUs that share it), the links, what is doubtful."""

    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    findings: tuple[Finding, ...]


def nvlinks_of(host: str, gpus: Sequence[str], counts: Mapping[Pair, int]) -> NvlinkPart:
    """Links for ``counts`` (pairs of ``gpus``, in their order). Bandwidths stay unknown: NV# counts links."""
    devices: list[Device] = []
    links: list[Link] = []
    findings: list[Finding] = []
    for group in _groups(gpus, counts):
        within = {pair: n for pair, n in counts.items() if pair[0] in group}
        sums = {g: sum(n for pair, n in within.items() if g in pair) for g in group}
        if max(sums.values()) > MOST_LINKS:
            switch = f"{host}/nvswitch{len(devices)}"
            devices.append(Device(switch, "nvswitch", host=host))
            bundle = {g: max(n for pair, n in within.items() if g in pair) for g in group}
            for gpu in group:
                links += both_ways(gpu, switch, "nvlink", multiplicity=bundle[gpu])
            findings += _uneven(bundle) + _not_one_switch(within, bundle)
            continue
        for (a, b), n in within.items():
            links += both_ways(a, b, "nvlink", multiplicity=n)
        if len(group) == len(gpus):
            findings += _undecided(group, within)
    return NvlinkPart(tuple(devices), tuple(links), tuple(findings))


def _groups(gpus: Sequence[str], counts: Mapping[Pair, int]) -> list[list[str]]:
    """GPUs that NVLink joins, directly or over others; those without any are left out."""
    of = {gpu: gpu for pair in counts for gpu in pair}
    for a, b in counts:
        old, new = of[b], of[a]
        of = {gpu: new if g == old else g for gpu, g in of.items()}
    groups: dict[str, list[str]] = {}
    for gpu in gpus:
        if gpu in of:
            groups.setdefault(of[gpu], []).append(gpu)
    return list(groups.values())


def _uneven(bundle: Mapping[str, int]) -> list[Finding]:
    """GPUs with fewer links to the switch than their siblings."""
    most = max(bundle.values())
    fewer = [f"{gpu}: {n} of {most} links" for gpu, n in bundle.items() if n < most]
    if not fewer:
        return []
    return [
        Finding(
            "nvlink_counts_uneven",
            Severity.WARNING,
            (shortened(fewer),),
            "look for inactive links with nvidia-smi nvlink -s; reset the GPU or check Fabric Manager",
        )
    ]


def _not_one_switch(within: Mapping[Pair, int], bundle: Mapping[str, int]) -> list[Finding]:
    """Pairs that show less than both their bundles allow: more than one switch, or cells misread."""
    group = list(bundle)
    odd = []
    for k, a in enumerate(group):
        for b in group[k + 1 :]:
            n = within.get((a, b), within.get((b, a)))
            expected = min(bundle[a], bundle[b])
            if n is not None and n != expected:
                odd.append(f"{a}, {b}: NV{n} where one switch gives NV{expected}")
    if not odd:
        return []
    return [
        Finding(
            "nvlink_not_one_switch",
            Severity.WARNING,
            (shortened(odd, 6),),
            "modelled as one switch with each GPU's largest count; check nvidia-smi nvlink -s",
        )
    ]


def _undecided(group: Sequence[str], within: Mapping[Pair, int]) -> list[Finding]:
    """A few GPUs with a full bundle to each other: direct bridges, or part of a switched machine."""
    every_pair = len(group) * (len(group) - 1) // 2
    counts = set(within.values())
    if len(counts) != 1 or len(within) != every_pair or not counts <= _FULL_BUNDLES:
        return []
    n = counts.pop()
    return [
        Finding(
            "nvlink_wiring_undecided",
            Severity.INFO,
            (f"{shortened(list(group))}: NV{n} between every pair",),
            "modelled as direct links; if these GPUs are part of an NVSwitch machine, import its whole "
            "matrix or its NCCL topology XML",
        )
    ]
