"""What each rank posts and waits for in a call, as gloo's source has it (pytorch/gloo 70dc3602).

For the collectives whose ranks do not go on in step: what is closed form for the others has to be played out
(``play``) for these. Messages are counted in pieces.
"""

from __future__ import annotations

from collections.abc import Callable

from clusterlab.cost.gloo.play import RECEIVE, SEND, WAIT, Program

_ANY = 1 << 30
"""So many may be outstanding: not waited for."""


def all_to_all(n: int, pieces: int) -> list[Program]:
    """gloo/alltoall.cc: to rank + i and from rank - i for i = 1, 2, …, then wait for all."""
    programs = []
    for rank in range(n):
        posts = []
        for i in range(1, n):
            posts += [(SEND, (rank + i) % n, pieces), (RECEIVE, (rank - i) % n, 0)]
        programs.append((*posts, (WAIT, 0, 0)))
    return programs


def gather(n: int, pieces: int, root: int) -> list[Program]:
    """gloo/gather.cc: the root waits for all others at once."""
    receives = tuple((RECEIVE, rank, 0) for rank in range(n) if rank != root)
    send = ((SEND, root, pieces), (WAIT, 0, 0))
    return [(*receives, (WAIT, 0, 0)) if rank == root else send for rank in range(n)]


def scatter(n: int, pieces: int, root: int) -> list[Program]:
    """gloo/scatter.cc: the root posts a send to each other rank in turn, then waits for all."""
    sends = tuple((SEND, rank, pieces) for rank in range(n) if rank != root)
    receive = ((RECEIVE, root, 0), (WAIT, 0, 0))
    return [(*sends, (WAIT, 0, 0)) if rank == root else receive for rank in range(n)]


def broadcast(n: int, pieces: int, root: int) -> list[Program]:
    """gloo/broadcast.cc: a binomial tree; a rank that has the buffer sends it to all its children at once."""
    programs = []
    for rank in range(n):
        me = (rank - root) % n
        steps = []
        for bit in (1 << i for i in range((n - 1).bit_length())):
            peer = me ^ bit
            if me >= 2 * bit or peer >= n:
                continue
            if me & bit:
                steps += [(RECEIVE, (peer + root) % n, 0), (WAIT, 0, _ANY)]
            else:
                steps.append((SEND, (peer + root) % n, pieces))
        programs.append((*steps, (WAIT, 0, 0)))
    return programs


def reduce(n: int, segments: int, pieces: int, root: int) -> list[Program]:
    """gloo/reduce.cc: ``segments`` for each rank go round to rank - 1, two under way; then all send their
    part to the root. A segment is so many pieces.
    """
    programs = []
    total = n * segments
    for rank in range(n):
        steps = []
        for i in range(total):
            if i >= 2:
                left = 1 if i < total - 1 else 0
                steps.append((WAIT, left, left))
            if i < total - 2:
                steps += [(RECEIVE, (rank + 1) % n, 0), (SEND, (rank - 1) % n, pieces)]
        if rank == root:
            steps += [(RECEIVE, other, 0) for other in range(n) if other != root]
        else:
            steps.append((SEND, root, segments * pieces))
        programs.append((*steps, (WAIT, 0, 0)))
    return programs


def send_recv(n: int, pieces: int) -> list[Program]:
    """isend to rank + 1 and irecv from rank - 1 (bench/ops.py), as ProcessGroupGloo hands them on."""
    return [
        ((SEND, (rank + 1) % n, pieces), (RECEIVE, (rank - 1) % n, 0), (WAIT, 0, 0))
        if n > 1
        else ((WAIT, 0, 0),)
        for rank in range(n)
    ]


PLAYED: dict[str, Callable[[int, int, int, int], list[Program]]] = {
    "all_to_all": lambda n, segments, pieces, root: all_to_all(n, pieces),
    "all_to_all_v": lambda n, segments, pieces, root: all_to_all(n, pieces),
    "gather": lambda n, segments, pieces, root: gather(n, pieces, root),
    "scatter": lambda n, segments, pieces, root: scatter(n, pieces, root),
    "broadcast": lambda n, segments, pieces, root: broadcast(n, pieces, root),
    "reduce": reduce,
    "send_recv": lambda n, segments, pieces, root: send_recv(n, pieces),
}
"""By collective (of an all_to_all_v with equal parts): of n ranks, segments for each rank, pieces of a
message (of a segment for reduce), root.
"""
