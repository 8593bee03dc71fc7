"""Which GPUs an import has: as its files name them, as the user does, or as their NVLinks tell.

`topo -m` never names them. The signalling rate that ``nvidia-smi nvlink -s`` prints tells the generation, the
number of links (NV18) only what it may be.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.core.suggest import did_you_mean
from clusterlab.formats.hostlist import fold_hosts
from clusterlab.formats.pci_names import amd_architecture, compute_capability, gpu_chips
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.templates import on_first_hosts
from clusterlab.topology.parts import Link

_SIGNALLED = (
    (14.062, 86, "Ampere's GA102 (A40, RTX A6000)"),
    (25.0, 80, "an A100's"),
    (25.781, 70, "a V100's"),
    (26.562, 90, "Hopper's"),
    (53.125, 100, "Blackwell's"),
)
"""GB/s of one link as nvidia-smi nvlink -s prints it, the compute capability, whose links they are: outputs
of RTX A6000 and RTX 3090, A100-SXM4, V100-SXM2, H100, H20, GB200 and B300 in public issues and logs."""
_NEAR = 0.005
"""A rate that was rounded (26.5) is still meant; the nearest two are 3 % apart."""
_TURING_LINKS = 2
"""Cards of Turing (Quadro RTX 8000) have one bridge of two links, at a V100's rate."""

_BY_COUNT = {
    4: "P100, or bridged cards",
    6: "V100",
    8: "A800 or H800",
    12: "A100, or an H100 NVL",
    18: "Hopper (H100, H200, H20) or Blackwell (B200, B300)",
}
"""NVLinks of a GPU (NVIDIA's data sheets) and who has as many."""


def known(model: str | None) -> bool:
    """Whether a GPU's model string names one of which clusterlab knows the generation."""
    return model is not None and (
        compute_capability(model) is not None or amd_architecture(model) is not None
    )


def check_model(model: str) -> str:
    """``model`` as ``--gpu`` takes it. Raises UsageError for a GPU that clusterlab does not know."""
    if not known(model):
        raise UsageError(
            f"unknown GPU {model!r}",
            where="--gpu",
            expected="a GPU by its chip (H100, B200, MI300X) or as nvidia-smi -L prints it",
            fix=did_you_mean(model, gpu_chips()),
        )
    return model


def found_models(fabric: Fabric, asked: str | None) -> tuple[dict[str, str], list[Finding]]:
    """Models for GPUs that have none known, by the name on the first of their equal hosts; what is doubtful.

    ``asked`` is what the user says they are. Raises UsageError where the files name another GPU.
    """
    models: dict[str, str] = {}
    by_rate: defaultdict[tuple[float, int, str], list[str]] = defaultdict(list)
    against: list[str] = []
    for name, gpu in on_first_hosts(fabric, "gpu"):
        links = [k for k in fabric.links_from(name) if k.link_class == "nvlink"]
        signalled = None if known(gpu.model) else _signalled(links)
        if asked is not None:
            models |= _as_asked(name, gpu.model, asked, fabric.origin)
            if signalled is not None and signalled[1] != compute_capability(asked):
                against.append(f"{name}: {signalled[0]:g} GB/s a link is {signalled[2]}")
        elif signalled is not None:
            models[name] = f"sm_{signalled[1]}"
            by_rate[signalled].append(name)
    findings = list(_inferred(by_rate))
    if against:
        findings.append(_against(asked or "", against))
    return models, findings


def _signalled(links: Sequence[Link]) -> tuple[float, int, str] | None:
    """The generation whose NVLinks signal at this rate; None: no rate, of several kinds, or of none known."""
    rates = {k.wire_GBps for k in links if k.wire_GBps is not None and k.GBps is None}
    if len(rates) != 1:
        return None
    rate = rates.pop()
    near = [s for s in _SIGNALLED if abs(rate / s[0] - 1) < _NEAR]
    if not near or (near[0][1] == 70 and sum(k.multiplicity for k in links) <= _TURING_LINKS):
        return None
    return rate, *near[0][1:]


def _as_asked(name: str, model: str | None, asked: str, origin: str) -> Mapping[str, str]:
    """``asked`` for a GPU without a model, or of which only the generation is named (sm_90)."""
    if model is None or not known(model):
        return {name: asked}
    theirs = compute_capability(model), amd_architecture(model)
    if theirs != (compute_capability(asked), amd_architecture(asked)):
        raise UsageError(
            f"{name} is {model!r} there, not {asked!r}",
            where=origin or None,
            expected="--gpu only for GPUs that no file names",
            fix="leave --gpu out",
        )
    return {name: asked} if model.startswith("sm_") else {}


def _inferred(by_rate: Mapping[tuple[float, int, str], Sequence[str]]) -> Iterator[Finding]:
    for (rate, sm, whose), names in by_rate.items():
        yield Finding(
            "gpu_model_inferred",
            Severity.INFO,
            (f"{fold_hosts(names)}: {rate:g} GB/s a link is {whose} NVLink, so sm_{sm}",),
            "enough for predictions; to name the chip: topo import --gpu MODEL",
        )


def _against(asked: str, said: Sequence[str]) -> Finding:
    more = [f"… {len(said)} GPUs in all"] if len(said) > 4 else []
    return Finding(
        "gpu_model_doubtful",
        Severity.WARNING,
        (*said[:4], *more),
        f"taken as {asked} all the same: look at nvidia-smi -L on that host",
    )


def unknown_models(fabric: Fabric) -> Iterator[Finding]:
    """GPUs of which nothing tells the generation: what predictions do then, and what their links allow."""
    lost = [name for name, gpu in on_first_hosts(fabric, "gpu") if not known(gpu.model)]
    if not lost:
        return
    models = fabric.models("gpu")
    count = sum(n for model, n in models.items() if not known(model))
    called = sorted(repr(model) for model in models if model is not None and not known(model))
    evidence = [
        f"{count} of {sum(models.values())} GPUs"
        + (
            f" are {', '.join(called[:4])}, which names no GPU"
            if called
            else ": no file names them"
        )
    ]
    evidence += _by_links(fabric, lost)
    evidence.append(
        "predictions are for an unknown GPU: by the rate of its NVLinks, else as an A100 (sm_80)"
    )
    if fabric.models("nvswitch"):
        evidence.append("NVLS is ruled out: on boards of unknown GPUs NVSwitches may not multicast")
    yield Finding(
        "gpu_model_unknown",
        Severity.WARNING,
        tuple(evidence),
        "say which GPUs they are: topo import … --gpu H100 (nvidia-smi -L prints it), or give the file of "
        "nvidia-smi nvlink -s as well",
    )


def _by_links(fabric: Fabric, names: Sequence[str]) -> Iterator[str]:
    """What the number of NVLinks of a GPU allows."""
    counts = Counter(
        sum(k.multiplicity for k in fabric.links_from(name) if k.link_class == "nvlink")
        for name in names
    )
    for links, gpus in counts.items():
        if links in _BY_COUNT:
            many = "one GPU has" if gpus == 1 else f"{gpus} GPUs of a host have"
            yield f"{many} {links} NVLinks: {_BY_COUNT[links]}; the count alone cannot tell"
