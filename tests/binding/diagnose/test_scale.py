"""Work that grows with the ranks, not with their square."""

from __future__ import annotations

import pytest

from clusterlab.binding.diagnose import diagnose, slurm_identity
from clusterlab.binding.records import read_record
from clusterlab.formats.hostlist import expand_hostlist


def _record(nodelist: str) -> dict[str, object]:
    ranks = [
        {
            "host": f"n{i}",
            "rank": i,
            "env": {
                "SLURM_STEP_NODELIST": nodelist,
                "SLURM_JOB_NODELIST": nodelist,
                "SLURM_PROCID": str(i),
                "SLURM_NTASKS": "64",
                "MASTER_ADDR": "n0",
            },
        }
        for i in range(64)
    ]
    return {"ranks": ranks}


@pytest.mark.parametrize(
    ("nodelist", "codes"), [("n[0-63]", []), ("m[0-63]", ["STALE_ENV"]), ("n[0-63", [])]
)
def test_a_node_list_is_expanded_once_for_all_ranks(
    monkeypatch: pytest.MonkeyPatch, nodelist: str, codes: list[str]
) -> None:
    seen: list[str] = []

    def counted(text: str) -> list[str]:
        seen.append(text)
        return expand_hostlist(text)

    monkeypatch.setattr(slurm_identity, "expand_hostlist", counted)
    slurm_identity._hosts.cache_clear()
    slurm_identity._names.cache_clear()
    found = diagnose(read_record(_record(nodelist), file="record"))
    assert [f.code for f in found if f.code == "STALE_ENV"] == codes
    assert seen == [nodelist]


def test_names_up_to_the_first_dot_count_as_the_node_lists() -> None:
    data = _record("n[0-63].cluster.example")
    found = diagnose(read_record(data, file="record"))
    assert "STALE_ENV" not in [f.code for f in found]
