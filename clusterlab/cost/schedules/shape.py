"""How the ranks of a group sit on hosts, as far as an algorithm's counts depend on it."""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class GroupShape:
    """``ranks`` on ``nodes`` of equally many, node by node; ``heads`` GPUs of a node own a NIC.

    Rank r is local rank r mod g of node r // g, g = ranks / nodes. Local rank l uses the NIC of head
    l·H // g: its own where every GPU has one, its group's otherwise. On one node heads mean nothing.

    Raises UsageError for shapes that cannot be: no ranks, nodes of different sizes, more heads than GPUs.
    """

    ranks: int
    nodes: int = 1
    heads: int = 1

    def __post_init__(self) -> None:
        if self.ranks < 1 or self.nodes < 1:
            raise UsageError(
                f"{self.ranks} ranks on {self.nodes} nodes", expected="at least one of each"
            )
        if self.ranks % self.nodes:
            raise UsageError(
                f"{self.ranks} ranks on {self.nodes} nodes",
                expected="as many ranks on every node",
                fix=f"use {self.ranks - self.ranks % self.nodes} ranks or other nodes",
            )
        if not 1 <= self.heads <= self.ranks_per_node:
            raise UsageError(
                f"{self.heads} heads among {self.ranks_per_node} ranks of a node",
                expected="from 1 to one per rank",
            )

    @property
    def ranks_per_node(self) -> int:
        """g."""
        return self.ranks // self.nodes

    @property
    def rails(self) -> int:
        """Ways out of a node that an algorithm spreads its buffer over: its heads; 1 on one node."""
        return self.heads if self.nodes > 1 else 1

    @property
    def most_per_nic(self) -> int:
        """Ranks of the NIC that most ranks of a node share."""
        return -(-self.ranks_per_node // self.heads)

    @property
    def network(self) -> int:
        """End point id of the network's reducing switch (in-network algorithms)."""
        return self.ranks + self.nodes

    def node_of(self, rank: int) -> int:
        """Which node."""
        return rank // self.ranks_per_node

    def local_of(self, rank: int) -> int:
        """Local rank."""
        return rank % self.ranks_per_node

    def nic_of(self, local: int) -> int:
        """The NIC (numbered by its head) that a local rank uses."""
        return local * self.heads // self.ranks_per_node

    def head_local(self, head: int) -> int:
        """Local rank of a head: the first that uses its NIC."""
        return -(-head * self.ranks_per_node // self.heads)

    def nvswitch_of(self, node: int) -> int:
        """End point id of a node's NVSwitch: ranks come first, then nodes' switches, then the network's."""
        return self.ranks + node
