"""What a training step should take where its ranks are: rank 0 says so first, by what all measured.

On this host's cores (``--fabric host``) gloo's constants are measured by the ranks together, or kept from
before. A probe of how fast a rank computes is made by all ranks at once, for they will compute at once, too:
cores that they share are shared then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterlab.bench.control import Control
from clusterlab.core.errors import UsageError
from clusterlab.launch.identity import RankIdentity
from clusterlab.runs.calibrating.session_calibration import agreed_calibration
from clusterlab.runs.sweeping.predicting import THIS_HOST
from clusterlab.runs.training.job import TrainJob
from clusterlab.runs.training.whatif import compute_of, fabric_of_run, is_probe, probed, what_if

if TYPE_CHECKING:
    from torch.distributed import Store

    from clusterlab.core.placement import Placement
    from clusterlab.cost.calibration import Calibration
    from clusterlab.trainers.config import Setup
    from clusterlab.trainers.plans.step_time import StepPrediction


def host_constants(identity: RankIdentity, store: Store, job: TrainJob) -> Calibration | None:
    """Of gloo on this host, on rank 0 of a run that is predicted there. Collective."""
    return agreed_calibration(identity, store, job) if job.fabric == THIS_HOST else None


def check_one_host(job: TrainJob, placement: Placement) -> None:
    """Raises UsageError where ranks are on several hosts and one of them is to predict for all."""
    hosts = {rank.host for rank in placement.ranks}
    if job.fabric == THIS_HOST and len(hosts) > 1:
        raise UsageError(
            f"ranks on {len(hosts)} hosts", where="--fabric host",
            expected="all on one, or a design of the network between them",
        )  # fmt: skip


def predicted_step(
    job: TrainJob, setup: Setup, control: Control, rank: int, calibration: Calibration | None
) -> StepPrediction | None:
    """Of ``setup`` on the fabric that was named; None on other ranks, and where none was. Collective."""
    if job.fabric is None:
        return None
    fabric = fabric_of_run(job.fabric, job.backend)
    probe = is_probe(job.compute, fabric)
    if probe:
        control.barrier()
        compute = probed(setup)
    if rank != 0:
        return None
    if not probe:
        compute = compute_of(job.compute, fabric, setup)
    return what_if(setup, fabric, compute, backend=job.backend, calibration=calibration)
