"""NCCL ranks of which one does not arrive: named, with its stack, and NCCL's flight recorder read.

One GPU is enough: with a host id of its own each rank is a host to NCCL, which then allows two on a GPU.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from clusterlab.bench.options import BenchOptions
from clusterlab.bench.runner import measure_points
from clusterlab.bench.trouble import Trouble, finding_of
from clusterlab.bench.watchdog import Aftermath
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import ExitCode
from clusterlab.core.rows import Point, make_point
from clusterlab.launch.gpus import visible_gpus
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.local import run_local_ranks
from clusterlab.launch.local_rank import OpenStore

pytestmark = pytest.mark.gpu

POINTS = [make_point("all_reduce", 4096 * (i + 1), DTYPES["float32"], 2) for i in range(4)]


@pytest.mark.parametrize("absent", [0, 1])
def test_a_rank_that_does_not_arrive_is_named_and_nccls_recorder_read(
    absent: int, tmp_path: Path
) -> None:
    if not visible_gpus():
        pytest.skip("no GPU is visible")

    def rank_main(identity: RankIdentity, open_store: OpenStore) -> int:
        os.environ["NCCL_HOSTID"] = f"host-{identity.rank}"
        import torch

        from clusterlab.launch.rendezvous import init_process_group

        torch.cuda.set_device(identity.rank % torch.cuda.device_count())
        store = open_store(60)
        init_process_group(identity, store, "nccl", timeout_s=120)

        def tell(trouble: Trouble) -> None:
            found = {"finding": finding_of(trouble).to_json(), "lines": trouble.lines()}
            (tmp_path / "told.json").write_text(json.dumps(found))

        def oversleep(point: Point, _own_us: list[float]) -> None:
            if identity.rank == absent and point == POINTS[1]:
                time.sleep(120)

        measure_points(
            identity,
            POINTS,
            BenchOptions(iterations=2, warmup=1, deadline_s=20),
            lambda *_: None,
            store=store,
            on_samples=oversleep,
            aftermath=Aftermath(tmp_path / "trouble", tell),
        )
        return 0

    outcome = run_local_ranks(2, rank_main, log_dir=tmp_path / "logs")
    assert outcome.exit_code == ExitCode.DEADLINE, outcome.message
    told = json.loads((tmp_path / "told.json").read_text())
    assert (told["finding"]["code"], told["finding"]["ranks"]) == ("RANK_DID_NOT_ARRIVE", [absent])
    waiting, sleeping = (
        next(line for line in told["lines"][2:] if f"rank {rank} on " in line)
        for rank in (1 - absent, absent)
    )
    assert "oversleep" in sleeping
    assert "in the point" in waiting
    flight = waiting.partition("flight recorder: ")[2]
    assert re.fullmatch(r"last completed \S+ #\d+.*, pending \S+ #\d+.*", flight), told["lines"]
    entries = json.loads((tmp_path / "trouble" / f"rank-{1 - absent}.flight.json").read_text())
    assert entries[-1]["profiling_name"].startswith("nccl:")
