"""The cluster this machine belongs to, as Slurm's own tool tells it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clusterlab.binding.explain.profile import NodeProfile
from clusterlab.binding.explain.profile_files import profile_from_slurm
from clusterlab.formats.hostlist import expand_hostlist
from clusterlab.formats.slurm_nodes import parse_slurm_nodes, recognise

_ANSWER_S = 2.0
_MOST_GRES_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ThisCluster:
    """The node that `bind explain` takes, and how many nodes are like it."""

    profile: NodeProfile
    nodes: int


def this_cluster(environ: Mapping[str, str]) -> ThisCluster | None:
    """What `scontrol show node` and gres.conf say; None where no Slurm answers. Raises UsageError."""
    text = _ask_scontrol()
    if text is None or not recognise(text):
        return None
    file = "scontrol show node"
    nodes = parse_slurm_nodes(text, file=file)
    profile = profile_from_slurm(text, file=file, gres=_gres_conf(environ))
    chosen = next(node for node in nodes if node.name == profile.name)
    kind = chosen.sockets, chosen.cores_per_socket, chosen.threads_per_core, chosen.gpus
    alike = [
        node
        for node in nodes
        if (node.sockets, node.cores_per_socket, node.threads_per_core, node.gpus) == kind
    ]
    return ThisCluster(profile, sum(len(expand_hostlist(node.name)) for node in alike))


def _ask_scontrol() -> str | None:
    tool = shutil.which("scontrol")
    if tool is None:
        return None
    try:
        done = subprocess.run(
            [tool, "show", "node"], capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _gres_conf(environ: Mapping[str, str]) -> str | None:
    """gres.conf beside slurm.conf, where it is readable here."""
    said = environ.get("SLURM_CONF")
    folders = [Path(said).parent] if said else [Path("/etc/slurm"), Path("/etc/slurm-llnl")]
    for folder in folders:
        try:
            with (folder / "gres.conf").open(encoding="utf-8", errors="replace") as file:
                return file.read(_MOST_GRES_BYTES)
        except OSError:
            continue
    return None
