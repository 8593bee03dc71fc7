"""What a lab should be (LabSpec), and what this machine makes of it (Setup). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import reject_unknown_keys, unknown

LOGIN_HOST = "ctl"
"""The host where slurmctld and munged run, and where `lab exec` runs without --node."""

SUBNET = "10.77.0"
"""Every lab has network namespaces of its own, so all labs use the same addresses."""

NIC_NETWORK = "10.78.0.0/16"
"""The data network of a lab with a fabric: 10.78.<NIC of the node>.<as in SUBNET>."""

_LIMITS = {
    # Addresses are SUBNET.10 and up, in one /24.
    "nodes": (1, 200),
    "gpus": (0, 64),
    # The affinity shim keeps 1024 CPUs, as glibc's cpu_set_t does.
    "cpus": (1, 1024),
    "sockets": (1, 64),
    "memory_mb": (64, 1 << 40),
    "nvlinks": (0, 1024),
    "slurmd_timeout_s": (1, 65533),
    "kill_wait_s": (1, 65533),
    "cred_expire_s": (5, 86400),
}
_AUTH = ("munge", "none")
ROUTINGS = ("pinned", "hash")
"""How the switches of a fabric choose. ``adaptive`` is per packet, which a lab's kernel has no way to do."""


@dataclass(frozen=True, slots=True)
class LabSpec:
    """A simulated cluster. Counts are per node; ``memory_mb`` is what each node claims to have.

    ``gpu_type`` is the type in Gres (``gpu:h100:8``), empty for none. ``nvlinks`` is the number of
    NVLinks between two GPUs that gres.conf claims. ``flat`` is several slurmd on this host without
    namespaces; ``real_gpus`` gives its one node this machine's GPUs instead of pretend ones.

    The three times are short so that faults show in seconds. Slurm's own defaults are
    ``slurmd_timeout_s`` 300, ``kill_wait_s`` 30 and ``cred_expire_s`` 120 (the last is also how long
    a requeued job waits). ``extra_conf`` are further lines of slurm.conf; ``topology_conf`` is the text of
    topology.conf, empty for a flat network (else slurmctld uses topology/tree).

    ``fabric`` is the design (a name or a file) that the data network follows, empty for none;
    ``fabric_digest`` its text's, ``routing`` how its switches choose (pinned or hash).
    """

    nodes: int = 4
    gpus: int = 8
    cpus: int = 16
    sockets: int = 2
    memory_mb: int = 4096
    gpu_type: str = "h100"
    nvlinks: int = 18
    auth: str = "munge"
    flat: bool = False
    real_gpus: bool = False
    slurmd_timeout_s: int = 10
    kill_wait_s: int = 5
    cred_expire_s: int = 10
    extra_conf: tuple[str, ...] = ()
    topology_conf: str = ""
    fabric: str = ""
    fabric_digest: str = ""
    routing: str = "pinned"

    def __post_init__(self) -> None:
        """Raise UsageError naming the first field out of its limits."""
        for field, (low, high) in _LIMITS.items():
            value = getattr(self, field)
            if not low <= value <= high:
                raise UsageError(
                    f"{field} is {value}", where="lab", expected=f"a number from {low} to {high}"
                )
        if self.cpus % self.sockets:
            raise UsageError(
                f"{self.cpus} CPUs do not divide by {self.sockets} sockets",
                where="lab: sockets",
                expected="the same number of cores in every socket",
            )
        if self.auth not in _AUTH:
            raise unknown("authentication", self.auth, _AUTH, where="lab: auth")
        if not re.fullmatch(r"[A-Za-z0-9_.-]*", self.gpu_type):
            raise UsageError(
                f"GPU type {self.gpu_type!r}",
                where="lab: gpu_type",
                expected="letters, digits, '_', '.' or '-'",
            )
        if self.routing not in ROUTINGS:
            raise unknown("routing", self.routing, ROUTINGS, where="lab: routing")
        if self.routing != ROUTINGS[0] and not self.fabric:
            raise UsageError(
                f"routing {self.routing} without switches",
                where="lab: routing",
                expected="a fabric",
            )
        if self.fabric and self.flat:
            raise UsageError(
                "a flat lab has no network of its own",
                where="lab: fabric",
                expected="a lab in namespaces",
                fix="leave --flat out",
            )
        if self.real_gpus and not (self.flat and self.nodes == 1):
            raise UsageError(
                "real GPUs belong to one node",
                where="lab: real_gpus",
                expected="flat mode with 1 node",
            )

    @property
    def cores_per_socket(self) -> int:
        """CPUs of one socket; a core has one thread."""
        return self.cpus // self.sockets

    def to_json(self) -> dict[str, Any]:
        """Plain data that ``from_json`` reads back."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> LabSpec:
        """The inverse of ``to_json``. Raises UsageError for an unknown key."""
        reject_unknown_keys(data, (f.name for f in fields(LabSpec)), where="lab")
        return replace(LabSpec(**data), extra_conf=tuple(data.get("extra_conf", ())))


@dataclass(frozen=True, slots=True)
class Setup:
    """How a LabSpec is realised on one machine.

    ``user`` is whom Slurm's daemons run as: root, also in a user namespace; flat, whoever we are.
    ``affinity``: ``shim`` (pretend CPUs by LD_PRELOAD), ``native`` (the machine has the CPUs) or
    ``none``. ``real_cpus`` are the CPUs this machine allows us. ``devices`` are the files that stand
    for GPUs 0, 1, …. ``ports`` are those of slurmctld and of each node's slurmd. ``shared`` are the
    directories below a node-local root that every node still sees. ``pmix_lib`` is the directory in
    which Slurm's PMIx plugin would find no libpmix.so, or a wrong one; else empty. ``source_nic``: nodes
    have several NICs, and a library sends what a rank sends by its own.
    """

    hostname: str
    user: str
    user_namespace: bool
    affinity: str
    real_cpus: tuple[int, ...]
    devices: tuple[str, ...]
    ports: tuple[int, ...]
    shared: tuple[str, ...] = ()
    pmix_lib: str = ""
    source_nic: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain data that ``from_json`` reads back."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Setup:
        """The inverse of ``to_json``."""
        plain: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in data.items()
        }
        return Setup(**plain)


def node_names(spec: LabSpec) -> tuple[str, ...]:
    """``n0``, ``n1``, …"""
    return tuple(f"n{index}" for index in range(spec.nodes))


def node_index(spec: LabSpec, name: str) -> int:
    """The position of node ``name``. Raises UsageError with a suggestion."""
    names = node_names(spec)
    if name not in names:
        raise unknown("node", name, names)
    return names.index(name)


def login_address() -> str:
    """The IPv4 address of the login host."""
    return f"{SUBNET}.1"


def node_address(index: int) -> str:
    """The IPv4 address of node ``index``."""
    return f"{SUBNET}.{10 + index}"


def nic_address(nic: int, node: int) -> str:
    """The IPv4 address of NIC number ``nic`` of node number ``node``."""
    return f"10.78.{nic}.{10 + node}"


def nic_subnet(nic: int) -> str:
    """Where NICs number ``nic`` of all nodes are."""
    return f"10.78.{nic}.0/24"


def switch_address(switch: int) -> str:
    """The IPv4 address of switch number ``switch``."""
    return f"10.79.0.{1 + switch}"


def hosts_of(spec: LabSpec) -> Iterator[tuple[str, str]]:
    """(address, name) of every host of the lab, the login host first."""
    yield login_address(), LOGIN_HOST
    for index, name in enumerate(node_names(spec)):
        yield node_address(index), name


def gpu_socket(spec: LabSpec, gpu: int) -> int:
    """The socket that ``gpu`` hangs on: GPUs are spread evenly over the sockets, in order."""
    return gpu * spec.sockets // spec.gpus
