"""Plain data (from YAML or JSON) to a joined record, leniently: unknown keys are passed over.

Keys that carry a person's judgement (``expect, diagnosis, fix, symptom, evidence, source, confidence``)
are never looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from clusterlab.binding.records.fields import Fields, cpu_set, normal_pci, whole
from clusterlab.binding.records.model import (
    Container,
    GpuRecord,
    JoinedRecord,
    MigSlice,
    NicRecord,
    NodeRecord,
    RankRecord,
    Slurm,
)
from clusterlab.core.errors import UsageError

MAX_RANKS = 65_536
_MOST_WORK = MAX_RANKS * 256


def read_record(data: Any, *, file: str) -> JoinedRecord:
    """The record in ``data``. Raises UsageError naming ``file`` and field.

    Ranks without nodes are read (masks and identities can still be judged); neither is an error.
    """
    fields = Fields(data, file)
    if fields.get("ranks") is None and fields.get("nodes") is None:
        raise UsageError("neither 'ranks' nor 'nodes'", where=file, expected="a joined record")
    nodes = _nodes(fields.get("nodes"), f"{file}: nodes")
    items = fields.items("ranks") or ()
    if fields.get("ranks") == [] and not fields.numbers("missing_ranks"):
        raise UsageError("no ranks", where=f"{file}: ranks", expected="at least one process")
    if len(items) > MAX_RANKS:
        raise UsageError(f"{len(items)} ranks", where=file, expected=f"at most {MAX_RANKS}")
    ranks = tuple(_bounded(items, nodes, file))
    record = JoinedRecord(
        nodes=nodes,
        ranks=ranks,
        launcher=fields.text("launcher") or "",
        slurm=_slurm(fields.get("slurm"), f"{file}: slurm"),
        missing_ranks=_missing(fields),
    )
    return replace(record, contradictions=contradictions(record))


def _bounded(
    items: Sequence[Any], nodes: Mapping[str, NodeRecord], file: str
) -> Iterator[RankRecord]:
    """The ranks; raises UsageError once CPUs or devices are too many to be compared."""
    cpus = sum(len(c) for node in nodes.values() for c in node.numa.values())
    pairs = 0
    for i, item in enumerate(items):
        rank = _rank(item, f"{file}: ranks[{i}]")
        node = nodes.get(rank.host)
        cpus += len(rank.cpus or ())
        pairs += (len(rank.visible or ()) + 1) * (len(node.gpus) + len(node.mig) if node else 1)
        if cpus > _MOST_WORK or pairs > _MOST_WORK:
            what = "CPUs" if cpus > _MOST_WORK else "devices"
            raise UsageError(
                f"too many {what} in all",
                where=f"{file}: ranks[{i}]",
                expected=f"at most {MAX_RANKS} ranks of up to 256 CPUs and 16 GPUs each",
            )
        yield rank


def _missing(fields: Fields) -> tuple[int, ...]:
    missing = fields.numbers("missing_ranks") or ()
    if any(rank < 0 for rank in missing):
        where = f"{fields.where}: missing_ranks"
        raise UsageError(str(min(missing)), where=where, expected="ranks from 0")
    return missing


def _slurm(data: Any, where: str) -> Slurm:
    if data is None:
        return Slurm()
    fields = Fields(data, where)
    return Slurm(fields.flag("constrain_devices"), fields.text("version"))


def _nodes(data: Any, where: str) -> dict[str, NodeRecord]:
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise UsageError("not a mapping", where=where, expected="host: node")
    return {str(host): _node(str(host), node, f"{where}.{host}") for host, node in data.items()}


def _node(host: str, data: Any, where: str) -> NodeRecord:
    fields = Fields(data, where)
    gpus = tuple(
        _gpu(Fields(item, f"{where}.gpus[{i}]"), i) for i, item in enumerate(_list(fields, "gpus"))
    )
    nics = tuple(
        _nic(Fields(item, f"{where}.nics[{i}]"), i) for i, item in enumerate(_list(fields, "nics"))
    )
    mig = tuple(_slice(Fields(m, f"{where}.mig[{i}]")) for i, m in enumerate(_list(fields, "mig")))
    numa = fields.get("numa")
    if numa is not None and not isinstance(numa, Mapping):
        raise UsageError("not a mapping", where=f"{where}.numa", expected="domain: CPUs")
    domains = {
        whole(str(k), f"{where}.numa") or 0: cpu_set(v, f"{where}.numa.{k}")
        for k, v in (numa or {}).items()
        if v is not None
    }
    return NodeRecord(
        host=host,
        gpus=gpus,
        numa=domains,
        nics=nics,
        mig=tuple(m for m in mig if m.uuid),
        fastest_first=fields.numbers("fastest_first") or (),
        profile=fields.text("profile"),
        boot_id=_machine(fields),
    )


def _gpu(fields: Fields, position: int) -> GpuRecord:
    index = fields.number("index")
    pci = fields.text("pci")
    if pci is None:
        raise UsageError("no 'pci'", where=fields.where, expected="a PCI address")
    return GpuRecord(
        index=position if index is None else index,
        pci=normal_pci(pci),
        uuid=fields.text("uuid"),
        numa=fields.number("numa"),
        model=fields.text("model"),
        tiles=fields.number("tiles"),
    )


def _nic(fields: Fields, position: int) -> NicRecord:
    return NicRecord(
        name=fields.text("name") or f"nic{position}",
        pci=fields.text("pci"),
        numa=fields.number("numa"),
        near_gpu=fields.number("near_gpu"),
        kind=fields.text("kind"),
        rail=fields.number("rail"),
    )


def _slice(fields: Fields) -> MigSlice:
    return MigSlice(fields.text("uuid") or "", fields.number("parent"))


def _rank(data: Any, where: str) -> RankRecord:
    fields = Fields(data, where)
    host, rank = fields.text("host"), fields.number("rank")
    if host is None or rank is None:
        raise UsageError("no 'host' or no 'rank'", where=where, expected="both")
    return RankRecord(
        host=host,
        rank=rank,
        local_rank=fields.number("local_rank"),
        env=fields.environment("env") or {},
        visible=fields.devices("visible"),
        selected_device=fields.number("selected_device"),
        error=fields.text("error") or "",
        stderr=fields.text("stderr") or "",
        cpus=fields.cpus("cpus"),
        openable=fields.devices("cgroup_devices" if fields.get("openable") is None else "openable"),
        allocated=fields.devices("allocated"),
        used=fields.devices("used"),
        nic_used=fields.text("nic_used"),
        rail=fields.number("rail"),
        container=_container(fields),
        framework=fields.text("framework"),
        app_rank=fields.number("app_rank"),
        app_size=fields.number("app_size"),
        host_env=fields.environment("host_env"),
        parent_env=fields.environment("parent_env"),
        env_at_exec=_env_at_exec(fields),
        cuda_initialized_before_set=fields.flag("cuda_initialized_before_set"),
        contexts=fields.numbers("contexts"),
        interfaces=fields.texts("interfaces"),
        hostname_short=fields.text("hostname_short") or _first_label(fields.text("hostname")),
        boot_id=_machine(fields),
        resolved=fields.environment("resolved") or {},
        reachable=_reachable(fields),
        monitor_index=fields.number("monitor_index"),
        monitor_pci=_pci(fields, "monitor_pci"),
        intended_pci=_pci(fields, "intended_pci"),
        device_minor=fields.number("device_minor"),
        declared_devices=fields.number("declared_devices"),
        ephemeral_ports=_ports(fields),
        job=fields.text("job"),
        omp_threads=fields.number("omp_threads"),
        nearest_nics=fields.texts("nearest_nics") or (),
        identity_from=fields.text("identity_from"),
        notes=fields.texts("notes") or (),
    )


def _machine(fields: Fields) -> str | None:
    """What a library would tell machines apart by."""
    names = ("boot_id", "host_hash", "machine_id")
    return next((text for name in names if (text := fields.text(name))), None)


def _first_label(name: str | None) -> str | None:
    return name.partition(".")[0] if name else None


def _list(fields: Fields, name: str) -> Iterable[Any]:
    return fields.items(name) or ()


def _pci(fields: Fields, name: str) -> str | None:
    text = fields.text(name)
    return None if text is None else normal_pci(text)


def _container(fields: Fields) -> Container | None:
    value = fields.get("container")
    if value is None or value is False:
        return None
    if isinstance(value, str):
        return Container(value)
    inner = Fields(value, f"{fields.where}.container")
    devices = inner.get("devices")
    numbered = isinstance(devices, list) and all(isinstance(d, int) for d in devices)
    return Container(inner.text("runtime"), inner.numbers("devices") if numbered else None)


def _env_at_exec(fields: Fields) -> dict[str, str | None] | None:
    """An unset variable is written as null or ``<unset>``."""
    value = fields.get("env_at_exec")
    if value is None:
        return None
    said = fields.environment("env_at_exec") or {}
    return {str(k): None if said.get(k) in (None, "<unset>") else said[k] for k in value}


def _reachable(fields: Fields) -> dict[str, bool]:
    value = fields.get("reachable")
    if not isinstance(value, Mapping):
        return {}
    return {str(k): v for k, v in value.items() if isinstance(v, bool)}


def _ports(fields: Fields) -> tuple[int, int] | None:
    """``32768-60999``, or the kernel's ``32768 60999``."""
    text = (fields.text("ephemeral_ports") or "").replace("-", " ").split()
    if len(text) != 2 or not all(t.isascii() and t.isdigit() and len(t) <= 5 for t in text):
        return None
    return int(text[0]), int(text[1])


def contradictions(record: JoinedRecord) -> tuple[str, ...]:
    """What in ``record`` cannot be true at once, in words."""
    found = []
    for rank in record.ranks:
        name = f"rank {rank.rank} on {rank.host}"
        node = record.nodes.get(rank.host)
        if node is None:
            if record.nodes:
                found.append(f"{name}: the record has no node {rank.host}")
            continue
        known = {g.pci for g in node.gpus} | {m.uuid for m in node.mig}
        known |= {g.uuid for g in node.gpus if g.uuid}
        strange = [d for d in rank.visible or () if d not in known]
        if known and strange:
            found.append(f"{name}: sees {', '.join(strange)}, which {rank.host} does not have")
        cpus = frozenset[int]().union(*node.numa.values())
        if rank.cpus and cpus and not rank.cpus & cpus:
            found.append(f"{name}: runs on CPUs that are in no NUMA domain of {rank.host}")
        if rank.rank < 0:
            found.append(f"{name}: a rank is never negative")
    return tuple(found)
