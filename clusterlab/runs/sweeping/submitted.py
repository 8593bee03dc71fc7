"""``clusterlab submit``: the sweep that was typed, as a Slurm job with one task per rank.

The run directory is made here, before the job exists, and must lie where all nodes see it under the same
path. It is all that this host and the nodes need to share, apart from the Python that runs: the job's
files lie in its ``submit`` folder, tasks start there, and a fabric file is copied into it.
"""

from __future__ import annotations

import re
import shutil
import signal
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from clusterlab.bench.spoiling import refuse_corrupt
from clusterlab.core.errors import ClusterlabError, UsageError
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.launch.site import Site, load_site, site_from_data
from clusterlab.launch.submit import Submission, SubmittedJob, render, require_slurm, submit
from clusterlab.records.files import write_json
from clusterlab.records.reading import read_json
from clusterlab.records.run_dir import RunDir, create_run, open_run, runs_root, utc_text
from clusterlab.runs.directory import announced
from clusterlab.runs.sweeping.bench import name_of, parse_corrupt, resolve, run_bench
from clusterlab.runs.sweeping.plan import make_plan
from clusterlab.runs.sweeping.request import BenchRequest
from clusterlab.topology.design.load import list_designs
from clusterlab.topology.opening import open_fabric

FOLDER = "submit"
JOB = "job.json"

# sbatch(1), --time
_TIME_LIMIT = re.compile(r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}|UNLIMITED|INFINITE", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """Where the job is to run; None: as ``site`` (a site.toml) says, or Slurm itself."""

    nodes: int | None = None
    gpus_per_node: int | None = None
    ranks_per_node: int | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    time_limit: str = "00:30:00"
    site: Path | None = None
    requeue: bool = True


def submit_sweep(request: BenchRequest, options: SubmitOptions) -> tuple[RunDir, SubmittedJob]:
    """Make the run directory and submit the job. Raises UsageError, and then leaves nothing behind."""
    site = _site(options)
    name = _checked_name(request, site, options)
    require_slurm()
    run = create_run(name, root=runs_root().absolute())
    try:
        submission = _submission(name, options, site, run.path)
        carried = _carry_fabric(request, submission.folder)
        job = submit(submission, partial(measure, carried))
    except ClusterlabError:
        shutil.rmtree(run.path, ignore_errors=True)
        raise
    document = {
        "job_id": job.job_id,
        "nodes": submission.nodes,
        "ranks_per_node": submission.ranks_per_node,
        "submitted_utc": utc_text(datetime.now(UTC)),
    }
    write_json(submission.folder / JOB, document)
    announced(run)
    ranks, nodes = submission.world_size, submission.nodes
    print(
        f"clusterlab: job {job.job_id} submitted: {ranks} rank{'s' * (ranks > 1)} on {nodes} "
        f"node{'s' * (nodes > 1)} ({job.script})",
        file=sys.stderr,
        flush=True,
    )
    return run, job


def script_of(request: BenchRequest, options: SubmitOptions) -> str:
    """The sbatch script that ``submit_sweep`` would submit, with a run directory that is not made."""
    site = _site(options)
    name = _checked_name(request, site, options)
    with tempfile.TemporaryDirectory() as root:
        run = create_run(name, root=Path(root))
        submission = _submission(name, options, site, run.path)
        text = render(submission, partial(measure, _carry_fabric(request, submission.folder)))
    return text.replace(root, str(runs_root().absolute()))


def submitted_job(path: Path) -> tuple[RunDir, SubmittedJob]:
    """The run in ``path`` and the job it was submitted as. Raises UsageError where it was not."""
    run = open_run(path)
    folder = run.path.absolute() / FOLDER
    if not (folder / JOB).exists():
        raise UsageError("no job was submitted for it", where=str(run.path))
    document = read_json(folder / JOB)
    job_id = document.get("job_id") if isinstance(document, dict) else None
    if not isinstance(job_id, str) or not job_id.isdecimal():
        raise UsageError(f"{job_id!r}", where=f"{folder / JOB}: job_id", expected="a job id")
    return run, SubmittedJob(job_id, folder)


def measure(request: BenchRequest) -> None:
    """What every task of the job runs: ``clusterlab bench``, as srun would start it.

    Returns when all is well; otherwise ends the process with bench's exit code, which submitit lets
    pass, so that Slurm's record of the job tells how it ended.
    """
    # submitit's handlers would let a rank outlive scancel.
    for number in (signal.SIGTERM, signal.SIGCONT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
    try:
        code = run_bench(request)
    except ClusterlabError as error:
        if not error.said:
            print(f"clusterlab: {error}", file=sys.stderr, flush=True)
        code = int(error.exit_code)
    if code:
        raise SystemExit(int(code))


def _checked_name(request: BenchRequest, site: Site, options: SubmitOptions) -> str:
    """The run's name, once what the ranks would refuse after hours in the queue is refused here.

    Raises UsageError. Which backend ``auto`` is, and what that lacks, only the nodes know.
    """
    backend = "gloo" if request.backend == "auto" else request.backend
    config = resolve(replace(request, backend=backend))
    nodes, ranks, _ = _shape(site, options)
    plan = make_plan(
        config,
        nodes * ranks,
        lambda _name, _dtype, _op: None,
        Placement(
            tuple(
                RankPlacement(rank, f"node {rank // ranks}", rank % ranks)
                for rank in range(nodes * ranks)
            )
        ),
    )
    refuse_corrupt(parse_corrupt(request.corrupt), plan.points, nodes * ranks)
    if request.fabric is not None:
        open_fabric(request.fabric)
    if not _TIME_LIMIT.fullmatch(options.time_limit):
        raise UsageError(
            f"{options.time_limit!r}", where="--time", expected="minutes, HH:MM:SS or D-HH:MM:SS"
        )
    if site.container_runtime != "none":
        raise UsageError(
            f"the site runs jobs in containers ({site.container_runtime}), submit does not",
            where="--site",
            fix="use `clusterlab jobs render --site …` and sbatch",
        )
    return request.name or name_of(config)


def _site(options: SubmitOptions) -> Site:
    """The site's defaults with what was typed in their place."""
    site = load_site(options.site) if options.site else Site()
    typed = {
        "partition": options.partition,
        "account": options.account,
        "qos": options.qos,
        "nodes": options.nodes,
        "gpus_per_node": options.gpus_per_node,
    }
    kept = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(site).items()}
    return site_from_data(
        kept | {k: v for k, v in typed.items() if v is not None}, where="submit options"
    )


def _shape(site: Site, options: SubmitOptions) -> tuple[int, int, int]:
    """Nodes, ranks per node and GPUs per node: one rank per GPU, unless the ranks were typed."""
    if options.ranks_per_node is None:
        if not site.gpus_per_node:
            raise UsageError(
                "the site has no GPUs", where="--ranks-per-node", expected="ranks on each node"
            )
        return site.nodes, site.gpus_per_node, site.gpus_per_node
    if options.ranks_per_node < 1:
        raise UsageError(
            f"{options.ranks_per_node}", where="--ranks-per-node", expected="at least 1"
        )
    return site.nodes, options.ranks_per_node, options.gpus_per_node or 0


def _submission(name: str, options: SubmitOptions, site: Site, run_path: Path) -> Submission:
    nodes, ranks_per_node, gpus_per_node = _shape(site, options)
    folder = run_path / FOLDER
    folder.mkdir()
    return Submission(
        name=re.sub(r"[^A-Za-z0-9_.]+", "-", name),
        folder=folder,
        site=site,
        nodes=nodes,
        ranks_per_node=ranks_per_node,
        gpus_per_node=gpus_per_node,
        time_limit=options.time_limit,
        requeue=options.requeue,
        exports={"CLUSTERLAB_RUN_DIR": str(run_path)},
    )


def _carry_fabric(request: BenchRequest, folder: Path) -> BenchRequest:
    """The request with its fabric file where the nodes see it."""
    if request.fabric is None or request.fabric in list_designs():
        return request
    source = Path(request.fabric)
    return replace(request, fabric=str(shutil.copyfile(source, folder / source.name)))
