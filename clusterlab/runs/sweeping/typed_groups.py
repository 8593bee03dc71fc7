"""``--pattern`` and ``--uneven`` as typed, made into the names that a sweep keeps."""

from __future__ import annotations

from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.core.patterns import ALL_RANKS, PAIRS, PAIRS_ONE_BY_ONE, pattern_name
from clusterlab.core.uneven import matrix_name, uneven_name
from clusterlab.formats.traffic_matrix import read_traffic_matrix

_LARGEST_FILE = 1 << 20


def pattern_typed(text: str | None, *, one_by_one: bool) -> str:
    """The pattern of a sweep; all ranks unless said. Raises UsageError for one that there is not, for pairs,
    and for ``one_by_one`` without groups.
    """
    pattern = ALL_RANKS if text is None else pattern_name(text, one_by_one=one_by_one)
    if pattern in (PAIRS, PAIRS_ONE_BY_ONE):
        raise UsageError(
            "pairs have collectives of their own", where="--pattern", fix="clusterlab bench pairs"
        )
    if one_by_one and pattern == ALL_RANKS:
        raise UsageError(
            "all ranks are one group",
            where="--one-by-one",
            expected="bench pairs, or --pattern node, rail, halves or nodes:K",
        )
    return pattern


def uneven_typed(text: str | None) -> str | None:
    """How parts differ: a name, or a file with a matrix as nccl-tests' alltoallv reads it, of which the shape
    is kept. Raises UsageError for neither.
    """
    if text is None:
        return None
    path = Path(text)
    try:
        if path.is_file():
            if path.stat().st_size > _LARGEST_FILE:
                raise UsageError(
                    f"{path} is larger than 1 MiB", where="--uneven", expected="a small matrix"
                )
            return matrix_name(
                read_traffic_matrix(path.read_text(errors="replace"), where=str(path))
            )
    except (OSError, ValueError):  # no name of a file, or one that cannot be read
        pass
    return uneven_name(text)
