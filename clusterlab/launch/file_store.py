"""A job's store in a file that all ranks share: for scripts that no launcher helps to meet."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.refusals import arrival_record, check_arrivals
from clusterlab.launch.rendezvous import Meeting
from clusterlab.launch.roll_call import roll_call


def meet_in_file(identity: RankIdentity, file: Path, *, timeout_s: float) -> Meeting:
    """Meet in ``file``, which no rank of an earlier job may have used; torch removes it in the end.

    Raises UsageError for a file that cannot be used, and what ``rendezvous.meet`` raises.
    """
    from torch.distributed import DistError, FileStore

    end = time.monotonic() + timeout_s
    try:
        # A FileStore tries for minutes to open what cannot be opened.
        file.open("ab").close()
        store = FileStore(str(file), identity.world_size)
        store.set_timeout(timedelta(seconds=timeout_s))
        came = store.add(f"clusterlab/came/{identity.rank}", 1)
    except (OSError, DistError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise UsageError(
            f"cannot be used: {reason}",
            where=str(file),
            expected="a new file in a folder that all ranks share and may write",
        ) from None
    if came != 1:
        raise UsageError(
            f"rank {identity.rank} was here before: the file is an earlier job's",
            where=str(file),
            expected="a file that does not exist yet",
            fix="delete it, or name one by the job, such as FOLDER/store.$SLURM_JOB_ID",
        )
    left_s = max(1.0, end - time.monotonic())
    record = arrival_record(identity)
    roll_call(store, identity, "arrival", record, check_arrivals, timeout_s=left_s)
    return Meeting(store, served_here=False, way="file")
