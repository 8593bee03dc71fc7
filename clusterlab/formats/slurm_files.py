"""What slurm.conf, cgroup.conf and gres.conf say that a task needs to know of its node.

Words ``Key=Value`` on lines; ``#`` begins a comment; keys in any case (slurm.conf(5), gres.conf(5)).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.formats.hostlist import expand_hostlist

_WORD = re.compile(r"([A-Za-z]+)\s*=\s*(\"[^\"]*\"|\S+)")
_MOST_DEVICES = 256
_CORES = re.compile(r"[0-9]{1,6}(?:-[0-9]{1,6})?(?:,[0-9]{1,6}(?:-[0-9]{1,6})?)*")


@dataclass(frozen=True, slots=True)
class GresGpu:
    """A GPU that gres.conf declares: its device file, its type, and ``cores`` as a list (``0-7``)."""

    file: str
    type: str | None = None
    cores: str | None = None


def setting(text: str, key: str) -> str | None:
    """The last value of ``key`` in slurm.conf or cgroup.conf; None where it is not set."""
    found = None
    for words in _lines(text):
        found = words.get(key.lower(), found)
    return found


def gres_gpus(text: str, node: str, *, file: str = "gres.conf") -> tuple[GresGpu, ...]:
    """The GPUs that gres.conf declares for ``node`` with a device file, in its order.

    Lines that AutoDetect fills in name none. Raises UsageError for a list that cannot be expanded.
    """
    found: list[GresGpu] = []
    for words in _lines(text):
        if words.get("name") != "gpu" or "file" not in words:
            continue
        nodes = words.get("nodename")
        if nodes and node not in expand_hostlist(nodes, where=f"{file}: NodeName"):
            continue
        cores = words.get("cores")
        if cores is not None and not _CORES.fullmatch(cores):
            cores = None
        devices = _files(words["file"], where=f"{file}: File")
        found += [GresGpu(device, words.get("type"), cores) for device in devices]
        if len(found) > _MOST_DEVICES:
            raise UsageError(
                f"{len(found)} GPUs", where=file, expected=f"at most {_MOST_DEVICES} on a node"
            )
    return tuple(found)


def _files(text: str, *, where: str) -> list[str]:
    """Device files: ``/dev/nvidia[0-3]``, or a list of such. Their last parts are a host list's words."""
    found = []
    for item in re.split(r",(?=/)", text):
        folder, _, names = item.rpartition("/")
        try:
            found += [f"{folder}/{name}" if folder else name for name in expand_hostlist(names)]
        except UsageError as error:
            raise UsageError(
                f"{item[:80]!r}: {error.message}",
                where=where,
                expected="files such as /dev/nvidia[0-3]",
            ) from None
    return found


def _lines(text: str) -> list[dict[str, str]]:
    """The words of each line, keys in lower case."""
    joined = text.replace("\\\n", " ")
    return [
        {key.lower(): value.strip('"') for key, value in _WORD.findall(line.partition("#")[0])}
        for line in joined.splitlines()
    ]
