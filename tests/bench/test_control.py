"""The harness's exchanges between gloo ranks: every bit of every rank's numbers arrives."""

from __future__ import annotations

import math
import pickle
import struct
from pathlib import Path

import pytest

from clusterlab.launch.local import run_local_ranks

RANKS = 3
ODD = [0.0, -0.0, -1.5, 1e308, 5e-324, math.inf, -math.inf, math.nan]


def bits(values: list[float]) -> list[bytes]:
    return [struct.pack("d", value) for value in values]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    folder: Path = tmp_path_factory.mktemp("control")

    def rank_main(identity, open_store):
        import torch

        from clusterlab.bench.control import Control
        from clusterlab.launch.rendezvous import init_process_group

        init_process_group(identity, open_store(60), "gloo", timeout_s=60)
        control = Control(torch.device("cpu"), identity.world_size)
        rank = identity.rank
        said = {
            "gathered": control.gather([float(rank), *ODD]),
            "largest": control.largest([float(rank), -float(rank), -math.inf]),
            "shared": control.share(bytes(range(256)) if rank == 1 else None, 1, 256),
            "claimed": control.share(bytes([rank]), 2, 1),
            "nothing": control.gather([]),
        }
        control.barrier()
        (folder / f"{rank}.pickle").write_bytes(pickle.dumps(said))
        torch.distributed.destroy_process_group()
        return 0

    outcome = run_local_ranks(RANKS, rank_main, log_dir=folder)
    assert outcome.exit_code == 0, outcome.message
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in range(RANKS)]


@pytest.mark.ranks
def test_numbers_arrive_bit_by_bit_in_rank_order(told) -> None:
    for said in told:
        assert [row[0] for row in said["gathered"]] == [0.0, 1.0, 2.0]
        assert all(bits(row[1:]) == bits(ODD) for row in said["gathered"])
        assert said["largest"] == [2.0, 0.0, -math.inf]
        assert said["nothing"] == [[]] * RANKS


@pytest.mark.ranks
def test_the_sources_bytes_are_everyones(told) -> None:
    for said in told:
        assert said["shared"] == bytes(range(256))
        assert said["claimed"] == bytes([2])
