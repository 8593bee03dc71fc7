"""A node profile by name or from a file: YAML, Slurm's own text, or a fabric."""

from __future__ import annotations

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


def open_profile(name_or_path: str) -> NodeProfile:
    """``lab``; a file of `topo discover`, of Slurm or of one's own; a fabric of `topo list`.

    Raises UsageError naming the file, the line and the field.
    """
    if name_or_path == "lab":
        return lab_profile()
    path = Path(name_or_path)
    if path.is_file():
        text = _text(path)
        if recognise(text):
            return profile_from_slurm(text, file=str(path))
        if is_profile(text):
            return profile_from_yaml(text, file=str(path))
    from clusterlab.topology.opening import open_fabric

    return profile_from_fabric(open_fabric(name_or_path))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from None
    return content.decode("utf-8", errors="replace")


def profile_from_slurm(text: str, *, file: str) -> NodeProfile:
    """The first node with GPUs of slurm.conf or `scontrol show node`, else the first.

    Lines of gres.conf in the same file say which cores each GPU is near; without them a GPU is near all.
    """
    nodes = parse_slurm_nodes(text, file=file)
    node = next((node for node in nodes if node.gpus), nodes[0])
    bare = NodeProfile(node.name, node.sockets, node.cores_per_socket, node.threads_per_core)
    where = f"{file}:{node.line}"
    check_size(bare, where)
    declared = gres_gpus(text, expand_hostlist(node.name, where=where)[0], file=file)
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
    )
    return check_size(profile, where)


def profile_from_fabric(fabric: Fabric) -> NodeProfile:
    """The first host, of those with GPUs if any has; a NUMA domain counts as a socket of one-thread cores.

    Raises UsageError where the fabric does not say what the prediction needs.
    """
    gpus = fabric.of_kind("gpu")
    where = f"fabric {fabric.name}"
    host = next((gpu.host for gpu in gpus), None) or next(iter(fabric.hosts), None)
    if host is None:
        raise UsageError("no host", where=where, expected="a fabric with hosts")
    domains = sorted(fabric.on_host(host, "cpu"), key=lambda cpu: (cpu.numa or 0, cpu.name))
    counts = {cpu.cores for cpu in domains}
    if len(counts) != 1 or None in counts:
        raise UsageError(
            f"the NUMA domains of {host} have {sorted(map(str, counts)) or 'no'} cores",
            where=where,
            expected="the same known number in each",
            fix="describe the node in a YAML profile",
        )
    cores = domains[0].cores or 1
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
