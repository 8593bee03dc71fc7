"""What follows from an import's GPUs: what NCCL counts their links for, and whether NVSwitches multicast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.hostlist import fold_hosts
from clusterlab.formats.nccl_tables import nvlink_GBps, nvlink_wire_GBps, xgmi_GBps
from clusterlab.formats.pci_names import amd_architecture, compute_capability
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.importing.gpu_models import found_models, unknown_models
from clusterlab.topology.importing.imported import Imported
from clusterlab.topology.importing.templates import changed, first_names, on_first_hosts
from clusterlab.topology.parts import Device, Link

NVLS_FROM = 90
"""NVSwitch 3 and later reduce and multicast; they come on boards of Hopper (sm_90) and later."""

_Model = Callable[[str], str]


def with_gpus(imported: Imported, asked: str | None = None) -> Imported:
    """The import with its GPUs' models as far as anything tells them, and what follows from these.

    ``asked`` is the model the user gives to GPUs that the files do not name. Raises UsageError where they
    name another, or there is no GPU.
    """
    fabric = imported.fabric
    if not fabric.models("gpu"):
        if asked is not None:
            raise UsageError(
                f"no GPU to be {asked!r}", where="--gpu", expected="a file that has GPUs"
            )
        return imported
    models, findings = found_models(fabric, asked)
    fabric = _filled(fabric, models)
    findings += [*unknown_models(fabric), *_ruled_out(fabric)]
    return replace(imported, fabric=fabric, findings=(*imported.findings, *findings))


def _filled(fabric: Fabric, models: dict[str, str]) -> Fabric:
    """GPUs with ``models`` (by their names on the first of equal hosts), rates and multicast by them."""
    first = first_names(fabric)

    def model(name: str) -> str:
        found = models.get(first(name))
        return found if found is not None else fabric.device(name).model or ""

    multicasting = {
        name
        for name, switch in on_first_hosts(fabric, "nvswitch")
        if not switch.in_network
        and (gpus := _gpus_at(fabric, name))
        and all((compute_capability(model(gpu)) or 0) >= NVLS_FROM for gpu in gpus)
    }
    rated = any(k.GBps is None and k.link_class in ("nvlink", "xgmi") for k in fabric.links)
    if not (models or multicasting or rated):
        return fabric

    def device(name: str, d: Device) -> Device:
        if name in models:
            return replace(d, model=models[name])
        return replace(d, in_network=True) if name in multicasting else d

    def link(src: str, dst: str, k: Link) -> Link:
        if k.GBps is not None or k.link_class not in ("nvlink", "xgmi"):
            return k
        gpus = [model(end) for end in (src, dst) if fabric.kind_of(end) == "gpu"]
        return _nvlink(k, gpus) if k.link_class == "nvlink" else _xgmi(k, gpus)

    return changed(fabric, device, link)


def _gpus_at(fabric: Fabric, switch: str) -> list[str]:
    ends = {k.dst for k in fabric.links_from(switch)}
    return [end for end in ends if fabric.kind_of(end) == "gpu"]


def _nvlink(link: Link, gpus: list[str]) -> Link:
    """One NVLink between GPUs of these models as NCCL counts it, no more than its wire carries."""
    known = [sm for gpu in gpus if (sm := compute_capability(gpu)) is not None]
    if not known or len(known) < len(gpus):
        return link
    sm = min(known)
    wire, source = link.wire_GBps, link.wire_source
    if wire is None:
        wire = nvlink_wire_GBps(sm)
        source = f"an NVLink of sm_{sm}, NVIDIA's data sheet" if wire else ""
    usable = nvlink_GBps(sm)
    return replace(
        link,
        GBps=usable if wire is None else min(usable, wire),
        GBps_source=f"NCCL's figure for an NVLink of sm_{sm} (src/graph/topo.h)",
        wire_GBps=wire,
        wire_source=source,
    )


def _xgmi(link: Link, gpus: list[str]) -> Link:
    """One xGMI link as RCCL counts it: MI300 alone, as others have several between some pairs."""
    found = [amd_architecture(gpu) or "" for gpu in gpus]
    if not found or not all(gcn.startswith("gfx94") for gcn in found):
        return link
    usable = xgmi_GBps(found[0])
    if link.wire_GBps is not None and link.wire_GBps < usable:
        return link
    return replace(link, GBps=usable, GBps_source=f"RCCL's figure for an xGMI link of {found[0]}")


def _ruled_out(fabric: Fabric) -> Iterator[Finding]:
    """NVSwitches under GPUs of a known generation that is older than multicast."""
    older: dict[int, list[str]] = {}
    for name, switch in on_first_hosts(fabric, "nvswitch"):
        found = {compute_capability(fabric.device(g).model or "") for g in _gpus_at(fabric, name)}
        least = min((sm for sm in found if sm is not None), default=NVLS_FROM)
        if not switch.in_network and least < NVLS_FROM:
            older.setdefault(least, []).append(name)
    for sm, names in older.items():
        yield Finding(
            "nvls_ruled_out",
            Severity.INFO,
            (f"{fold_hosts(names)}: NVSwitches on a board of sm_{sm} do not multicast",),
            "nothing to do: NVLS needs NVSwitch 3, which comes with Hopper (sm_90) and newer",
        )
