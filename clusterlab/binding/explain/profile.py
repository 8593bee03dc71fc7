"""A kind of node as Slurm sees it: sockets, cores, threads, GPUs and which cores each GPU is near.

Cores are counted as Slurm counts them, socket by socket; CPUs as the kernel numbers them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class ProfileGpu:
    """A GPU: the cores of its ``Cores=`` line in gres.conf; None: near none in particular."""

    cores: frozenset[int] | None = None


@dataclass(frozen=True)
class NodeProfile:
    """Nodes of one kind.

    ``domains`` are the NUMA domains' CPUs. ``links[i][j]`` is gres.conf's Links= between two GPUs, ()
    where it has none. ``core_of_thread_first``: CPU numbers run through every core's first thread, then
    every core's second (as Linux does on most servers); else a core's threads are neighbours.
    ``gpu_cores_known``: False where a file that should tell which cores GPUs are near does not.
    """

    name: str
    sockets: int
    cores_per_socket: int
    threads_per_core: int = 1
    gpus: tuple[ProfileGpu, ...] = ()
    gpu_type: str | None = None
    domains: tuple[frozenset[int], ...] = ()
    links: tuple[tuple[int, ...], ...] = ()
    core_of_thread_first: bool = True
    gpu_cores_known: bool = True

    @property
    def cores(self) -> int:
        """Cores of the node."""
        return self.sockets * self.cores_per_socket

    @property
    def cpus(self) -> int:
        """Hardware threads of the node."""
        return self.cores * self.threads_per_core

    def socket_of(self, core: int) -> int:
        """The socket ``core`` is on."""
        return core // self.cores_per_socket

    def cores_of(self, socket: int) -> range:
        """The cores of ``socket``."""
        return range(socket * self.cores_per_socket, (socket + 1) * self.cores_per_socket)

    def cpu_number(self, position: int) -> int:
        """The kernel's number of the CPU at ``position``, counted core by core, thread by thread."""
        core, thread = divmod(position, self.threads_per_core)
        return thread * self.cores + core if self.core_of_thread_first else position

    def cpus_of_cores(self, cores: Iterable[int]) -> frozenset[int]:
        """Every CPU of ``cores``, as the kernel numbers them."""
        threads = range(self.threads_per_core)
        return frozenset(
            self.cpu_number(core * self.threads_per_core + t) for core in cores for t in threads
        )

    @cached_property
    def domain_of_cpu(self) -> dict[int, frozenset[int]]:
        """For each CPU, all CPUs of its NUMA domain."""
        every = self.domains or (self.cpus_of_cores(range(self.cores)),)
        return {cpu: domain for domain in every for cpu in domain}

    def near(self, gpu: int, cpus: frozenset[int]) -> bool:
        """Whether one of ``cpus`` is among those gres.conf gives the GPU."""
        cores = self.gpus[gpu].cores
        return cores is None or bool(self.cpus_of_cores(cores) & cpus)

    def reachable(self, gpu: int, cores: frozenset[int]) -> bool:
        """Whether one of ``cores`` is among those gres.conf gives the GPU."""
        near = self.gpus[gpu].cores
        return near is None or bool(near & cores)

    def sockets_of_gpu(self, gpu: int) -> frozenset[int]:
        """The sockets the GPU's cores are on; all of them where it has none in particular."""
        cores = self.gpus[gpu].cores
        every = frozenset(range(self.sockets))
        return every if cores is None else frozenset(self.socket_of(core) for core in cores)


def lab_profile() -> NodeProfile:
    """The node of the lab: 2 sockets of 8 cores, 8 GPUs, 0–3 near the first socket, 4–7 the second.

    Its slurmd sees one NUMA domain, and its gres.conf says that all GPUs are linked alike.
    """
    halves = [frozenset(range(8)), frozenset(range(8, 16))]
    return NodeProfile(
        name="lab",
        sockets=2,
        cores_per_socket=8,
        gpus=tuple(ProfileGpu(halves[i // 4]) for i in range(8)),
        gpu_type="h100",
        domains=(frozenset(range(16)),),
        links=tuple(tuple(-1 if i == j else 18 for j in range(8)) for i in range(8)),
    )
