"""What a sweep does with a point that does not end: keep what the ranks know, and end the run."""

from __future__ import annotations

import sys
from pathlib import Path

from clusterlab.bench.trouble import Trouble, finding_of
from clusterlab.bench.watchdog import Aftermath
from clusterlab.core.errors import ClusterlabError, ExitCode
from clusterlab.launch.identity import RankIdentity
from clusterlab.records.run_dir import open_run
from clusterlab.records.trouble import KeptTrouble, trouble_folder, write_trouble
from clusterlab.runs.finish import end_run


def aftermath_of(identity: RankIdentity, run_path: Path) -> Aftermath:
    """For ``run_path``'s latest attempt, as this rank sees it."""
    folder = trouble_folder(run_path, open_run(run_path).attempt)

    def tell(trouble: Trouble) -> None:
        kept = KeptTrouble(finding_of(trouble), trouble.complaint.passed)
        try:
            write_trouble(folder, kept, trouble.to_json())
        except (ClusterlabError, OSError) as error:
            print(f"clusterlab: {error}", file=sys.stderr)
            print("\n".join(trouble.lines()), file=sys.stderr, flush=True)
        # Ranks of a launcher of ours are outlived by it. Elsewhere rank 0 ends the run, when it still
        # can; when it has, its word stays.
        rank_0_is_gone = any(seen.rank == 0 for seen in trouble.silent)
        ended = open_run(run_path).info.attempts[-1].ended_utc is not None
        if (
            identity.source != "local"
            and (trouble.complaint.passed or rank_0_is_gone)
            and not ended
        ):
            end_run(run_path, ExitCode.DEADLINE, trouble.reason)

    return Aftermath(folder, tell)
