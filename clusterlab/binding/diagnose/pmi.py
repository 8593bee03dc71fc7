"""Rules about how MPI finds its server: PMI and PMIx, offered and spoken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from clusterlab.binding.diagnose.saying import finding, quoted, those, who
from clusterlab.binding.diagnose.scene import Scene
from clusterlab.binding.records import RankRecord
from clusterlab.core.findings import Finding

_WANTS_PMIX = re.compile(
    r"no pmix server was reachable|pmix_init.*(unreach|fail)|but (a )?pmi-?[12]|PMI1/2 was detected"
    r"|built with PMIx|support for PMIx|OMPI was not built with SLURM's PMI support",
    re.IGNORECASE,
)
_WANTS_PMI = re.compile(
    r"PMI2?_Init|PMI2?_(Job_)?GetId|PMI server not found|unable to (initialize|init) PMI|MPIDI?_?.*PMI"
    r"|mpi/pmi2: |pmi_?(init|kvs).*(fail|error)|I_MPI_PMI_LIBRARY|PMI is not initialized",
    re.IGNORECASE,
)
_COMPONENT = re.compile(
    r"can ?not load PMIx library|Invalid MPI type 'pmix|mpi/pmix(_v[0-9])?: (init|.*fail|.*error)"
    r"|(requested )?component was not found.*(psec|munge|gds|ptl|pmix)"
    r"|Framework:\s*(psec|gds|ptl|bfrops|pcompress)"
    r"|psec[/ ]?(:|munge)|PMIX[_ ]?(ERR|ERROR)|pmix.*version (mismatch|not)|PMIX_ERR_(NOT_SUPPORTED|UNPACK)"
    r"|libpmix[^ ]*: cannot open|gds[/ ]?(ds12|ds21|hash).*(fail|error|not)",
    re.IGNORECASE | re.DOTALL,
)
_PMI_LIBRARY = re.compile(r"mpich|intel ?mpi|impi|mvapich", re.IGNORECASE)


def protocols_differ(scene: Scene) -> Iterable[Finding]:
    """PMI_MISMATCH: the launcher offers one of PMI and PMIx, the library speaks the other."""
    for world in scene.worlds:
        offered = _offered(scene, world)
        texts = [(r, f"{r.error} {r.stderr}") for r in world]
        wants_pmix = [r for r, t in texts if _WANTS_PMIX.search(t)]
        wants_pmi = [r for r, t in texts if _WANTS_PMI.search(t) and not _WANTS_PMIX.search(t)]
        alone = len(world) > 1 and all(r.app_size == 1 for r in world)
        if offered == "pmi" and (wants_pmix or alone):
            said, fix = wants_pmix, "export SLURM_MPI_TYPE=pmix\n# the same as srun --mpi=pmix"
        elif offered == "pmix" and (wants_pmi or (alone and _speaks_pmi(scene, world))):
            said = wants_pmi
            fix = (
                "export SLURM_MPI_TYPE=pmi2 I_MPI_PMI_LIBRARY=/usr/lib64/libpmi2.so\n"
                "# the same as srun --mpi=pmi2; the library is for Intel MPI"
            )
        elif offered == "" and (wants_pmix or wants_pmi) and scene.under_slurm:
            said = wants_pmix or wants_pmi
            kind = "pmix" if wants_pmix else "pmi2"
            fix = (
                f"export SLURM_MPI_TYPE={kind}\n# the same as srun --mpi={kind}; srun --mpi=list shows what"
                " this Slurm has"
            )
        else:
            continue
        names = {"pmi": "PMI_* only", "pmix": "PMIX_* only", "": "neither PMI nor PMIx"}
        evidence = [f"{those(world)}: the launcher offers {names[offered]}"]
        evidence += [f"{who(r)}: {quoted(r.error or r.stderr)}" for r in said[:2]]
        if alone:
            evidence.append(f"{those(world)}: each is rank 0 of 1 for the library")
        yield finding("PMI_MISMATCH", world, evidence, fix)


def _offered(scene: Scene, world: Sequence[RankRecord]) -> str:
    """``pmi``, ``pmix``, ``both``, or "" for neither; mpirun's own children are of no interest: ``own``."""
    if any("OMPI_COMM_WORLD_RANK" in r.env for r in world):
        return "own"
    pmix = any(n.startswith("PMIX_") for r in world for n in r.env)
    pmi = any(n in r.env for r in world for n in ("PMI_RANK", "PMI_FD", "PMI_SIZE"))
    kind = scene.options.get("mpi")
    pmix, pmi = (
        pmix or (kind.startswith("pmix") and not pmi),
        pmi or (kind.startswith("pmi2") and not pmix),
    )
    if any(r.container for r in world) and not pmix and not pmi:
        return "own"
    return "both" if pmix and pmi else "pmix" if pmix else "pmi" if pmi else ""


def _speaks_pmi(scene: Scene, world: Sequence[RankRecord]) -> bool:
    """Whether the library is of MPICH's family; under srun --mpi=pmix a lone rank of another is one too."""
    named = any(_PMI_LIBRARY.search(r.framework or "") for r in world)
    hinted = any(n.startswith(("I_MPI_", "MPICH_", "MV2_")) for r in world for n in r.env)
    contained = any(r.container for r in world)
    return named or hinted or (scene.options.get("mpi").startswith("pmix") and not contained)


def missing_component(scene: Scene) -> Iterable[Finding]:
    """PMIX_COMPONENT: server and client have not the same PMIx pieces: library, security, storage."""
    bad = [r for r in scene.ranks if _COMPONENT.search(f"{r.error} {r.stderr}")]
    if not bad:
        return
    evidence = [f"{who(r)}: {quoted(r.error or r.stderr)}" for r in bad]
    text = " ".join(f"{r.error} {r.stderr}" for r in bad).lower()
    if "munge" in text or "psec" in text:
        fix = "export PMIX_MCA_psec=native\n# if the server allows it; or PMIx with munge in the image"
    elif "gds" in text:
        fix = (
            "export PMIX_MCA_gds=hash\n# on both sides; or the same PMIx release in image and host"
        )
    else:
        fix = (
            "srun --mpi=list; ldd $(scontrol show config | awk '/PluginDir/{print $3}')/mpi_pmix*.so |"
            " grep pmix\n# install the libpmix of the plugin's major version on all nodes"
        )
    yield finding("PMIX_COMPONENT", bad, evidence, fix)


RULES = (protocols_differ, missing_component)
