"""What an algorithm adds up to: steps, hops and bytes per class of link."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Counts:
    """Totals over a whole collective; bytes are those of the busiest, each field on its own.

    ``steps`` are rounds one after the other, the filling of a pipe included. ``hops_between`` and
    ``hops_inside`` are what the longest way of any piece of data is made of: of all chains of
    transfers that depend on one another, the one with most hops between hosts, then inside. In a pipe
    of many chunks, steps exceed hops; among messages sent one by one (pairwise) too.

    ``sent``: bytes any rank sends. ``gpu_out``, ``gpu_in``: bytes over one GPU's NVLink (transfers
    inside the host, to peers and NVSwitch). ``node_out``, ``node_in``: over all NICs of one host;
    ``nic_out``, ``nic_in``: over one NIC. A GPU reaches its NIC by PCIe, which is not counted.
    """

    steps: int = 0
    hops_inside: int = 0
    hops_between: int = 0
    sent_bytes: float = 0.0
    gpu_out_bytes: float = 0.0
    gpu_in_bytes: float = 0.0
    node_out_bytes: float = 0.0
    node_in_bytes: float = 0.0
    nic_out_bytes: float = 0.0
    nic_in_bytes: float = 0.0

    def reversed(self) -> Counts:
        """The counts of the same transfers sent backwards, but for ``sent_bytes``, which cannot be told."""
        return replace(
            self,
            gpu_out_bytes=self.gpu_in_bytes,
            gpu_in_bytes=self.gpu_out_bytes,
            node_out_bytes=self.node_in_bytes,
            node_in_bytes=self.node_out_bytes,
            nic_out_bytes=self.nic_in_bytes,
            nic_in_bytes=self.nic_out_bytes,
        )


NOTHING = Counts()
"""One rank alone."""


def even(
    *,
    steps: int,
    hops: tuple[int, int],
    sent: float,
    gpu: float = 0.0,
    node: float = 0.0,
    nic: float = 0.0,
) -> Counts:
    """Counts of an algorithm that loads both directions alike. ``hops``: inside, between."""
    return Counts(steps, hops[0], hops[1], sent, gpu, gpu, node, node, nic, nic)
