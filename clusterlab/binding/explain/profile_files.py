"""A node profile by name or from a file: YAML, Slurm's own text, or a fabric."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from clusterlab.binding.explain.profile import NodeProfile, ProfileGpu, lab_profile
from clusterlab.binding.explain.profile_yaml import (
    check_size,
    core_set,
    is_profile,
    profile_from_yaml,
    socket_domains,
)
from clusterlab.core.errors import UsageError
from clusterlab.formats.hostlist import expand_hostlist
from clusterlab.formats.slurm_files import gres_gpus
from clusterlab.formats.slurm_nodes import parse_slurm_nodes, recognise
from clusterlab.formats.strict_yaml import MAX_BYTES
from clusterlab.topology.fabric import Fabric


def open_profile(name_or_path: str, *, cores_per_socket: int | None = None) -> NodeProfile:
    """``lab``; a file of `topo discover`, of Slurm or of one's own; a fabric of `topo list`.

    ``cores_per_socket``: of a fabric that does not say how many cores a NUMA domain has. Raises UsageError
    naming the file, the line and the field.
    """
    if name_or_path == "lab":
        return lab_profile()
    path = Path(name_or_path)
    if path.is_file():
        text = _text(path)
        if recognise(text):
            beside = path.with_name("gres.conf")
            gres = _text(beside) if beside.is_file() else None
            return profile_from_slurm(text, file=str(path), gres=gres)
        if is_profile(text):
            return profile_from_yaml(text, file=str(path))
    elif not path.is_dir() and (path.suffix or len(path.parts) > 1):
        raise UsageError(
            "no such file",
            where=name_or_path,
            expected="a node profile in YAML, slurm.conf, `scontrol show node`, or what `topo discover` "
            "wrote",
            fix="`lab` and designs of `clusterlab topo list` go by name",
        )
    from clusterlab.topology.opening import open_fabric

    return profile_from_fabric(open_fabric(name_or_path), cores_per_socket=cores_per_socket)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from None
    return content.decode("utf-8", errors="replace")


def profile_from_slurm(text: str, *, file: str, gres: str | None = None) -> NodeProfile:
    """The first node with GPUs of slurm.conf or `scontrol show node`, else the first.

    ``gres``: the text of gres.conf, whose lines may also stand in ``text``. Its Cores= say which cores each
    GPU is near; without them a GPU is taken to be near all, and the profile tells.
    """
    nodes = parse_slurm_nodes(text, file=file)
    node = next((node for node in nodes if node.gpus), nodes[0])
    bare = NodeProfile(node.name, node.sockets, node.cores_per_socket, node.threads_per_core)
    where = f"{file}:{node.line}"
    check_size(bare, where)
    name = expand_hostlist(node.name, where=where)[0]
    declared = gres_gpus(text, name, file=file)
    if not declared and gres is not None:
        declared = gres_gpus(gres, name)
    gpus = tuple(
        ProfileGpu(core_set(gpu.cores, bare, where) if gpu.cores else None) for gpu in declared
    )
    if len(gpus) < node.gpus:
        gpus += (ProfileGpu(),) * (node.gpus - len(gpus))
    profile = NodeProfile(
        node.name,
        node.sockets,
        node.cores_per_socket,
        node.threads_per_core,
        gpus,
        node.gpu_type,
        socket_domains(bare),
        gpu_cores_known=all(gpu.cores is not None for gpu in gpus),
    )
    return check_size(profile, where)


def profile_from_fabric(fabric: Fabric, *, cores_per_socket: int | None = None) -> NodeProfile:
    """The first host, of those with GPUs if any has; a NUMA domain counts as a socket of one-thread cores.

    ``cores_per_socket``: cores of a domain, where the fabric does not say. Raises UsageError where it is
    not said at all.
    """
    gpus = fabric.of_kind("gpu")
    where = f"fabric {fabric.name}"
    host = next((gpu.host for gpu in gpus), None) or next(iter(fabric.hosts), None)
    if host is None:
        raise UsageError("no host", where=where, expected="a fabric with hosts")
    domains = sorted(fabric.on_host(host, "cpu"), key=lambda cpu: (cpu.numa or 0, cpu.name))
    counts = {cpu.cores if cpu.cores is not None else cores_per_socket for cpu in domains}
    if len(counts) != 1 or None in counts:
        raise UsageError(
            _cores_said(host, counts),
            where=where,
            expected="the same known number of cores in each NUMA domain, as dgx-h100 has",
            fix="add --cores-per-socket N, or describe the node in a YAML profile (docs/binding.md)",
        )
    cores = domains[0].cores or cores_per_socket or 1
    place = {cpu.numa if cpu.numa is not None else i: i for i, cpu in enumerate(domains)}
    bare = NodeProfile(fabric.name, len(domains), cores)
    check_size(bare, where)
    mine = fabric.on_host(host, "gpu")
    near = [None if gpu.numa is None else place.get(gpu.numa) for gpu in mine]
    return check_size(
        replace(
            bare,
            gpus=tuple(
                ProfileGpu(None if socket is None else frozenset(bare.cores_of(socket)))
                for socket in near
            ),
            domains=socket_domains(bare),
        ),
        where,
    )


def _cores_said(host: str, counts: Collection[int | None]) -> str:
    if not counts:
        return f"{host} has no CPU"
    if counts == {None}:
        return f"it does not say how many cores {host} has"
    shown = ", ".join(sorted("unknown" if count is None else str(count) for count in counts))
    return f"the NUMA domains of {host} have different numbers of cores: {shown}"
