from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab import __version__
from clusterlab.core.errors import UsageError
from clusterlab.core.shipped import shipped
from clusterlab.launch.jobscript import JOBS, JobTemplate, render_job
from clusterlab.launch.site import Site, load_site, site_from_data

GOLDEN = Path(__file__).parent.parent / "golden" / "jobs"
SITES = {
    "default": Site(),
    "site": Site(
        partition="h100",
        account="my account",
        qos="high",
        nodes=4,
        gpus_per_node=4,
        gres_style="gres",
        modules=("cuda/12.4",),
    ),
    "pyxis": Site(
        container_runtime="pyxis",
        container_image="nvcr.io#nvidia/pytorch:25.04-py3",
        container_mounts=("/data:/data", "/home/me:/home/me"),
    ),
    "apptainer": Site(
        container_runtime="apptainer",
        container_image="/images/torch.sif",
        container_mounts=("/data:/data",),
    ),
}


@pytest.mark.parametrize("job", JOBS, ids=lambda j: j.name)
def test_the_shipped_job_files_are_what_the_renderer_writes(job: JobTemplate) -> None:
    text = (shipped("jobs") / f"{job.name}.sbatch").read_text(encoding="utf-8")
    assert text == render_job(job, Site(), __version__), "run `make jobs`"


@pytest.mark.parametrize("name", SITES)
def test_site_variants_match_their_golden_files(name: str) -> None:
    golden = GOLDEN / f"allreduce_sweep.{name}.sbatch"
    assert render_job(JOBS[0], SITES[name], "0.0.0") == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("job", JOBS, ids=lambda j: j.name)
@pytest.mark.parametrize("site", SITES.values(), ids=SITES)
def test_every_job_file_is_bash_and_fits_one_screen(job: JobTemplate, site: Site) -> None:
    text = render_job(job, site, "1")
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    assert len(text.splitlines()) <= 55
    assert max(map(len, text.splitlines())) <= 112
    assert text.endswith("\nexit $?\n")


words = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"]), min_size=1)


@given(words, words, words)
def test_hostile_site_values_stay_one_quoted_word(partition: str, module: str, image: str) -> None:
    site = Site(
        partition=partition,
        modules=(module,),
        container_runtime="pyxis",
        container_image=image,
    )
    text = render_job(JOBS[0], site, "1")
    # A directive is a comment to bash; sbatch splits it like a shell.
    line = next(x for x in text.splitlines() if x.startswith("#SBATCH --partition="))
    assert shlex.split(line.removeprefix("#SBATCH ")) == [f"--partition={partition}"]
    assert shlex.split(next(x for x in text.splitlines() if x.startswith("module load"))) == [
        "module",
        "load",
        module,
    ]
    image_line = next(x for x in text.splitlines() if "--container-image=" in x)
    assert f"--container-image={image}" in shlex.split(image_line.rstrip("\\"))


def test_a_site_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text('partition = "gpu"\ngpus_per_node = 4\nmodules = ["cuda"]\n')
    assert load_site(path) == Site(partition="gpu", gpus_per_node=4, modules=("cuda",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("partitoin = 'x'", "did you mean 'partition'"),
        ("nodes = 'two'", "nodes: 'two'; expected a int"),
        ("nodes = true", "expected a int"),
        ("nodes = 0", "at least 1"),
        ("gres_style = 'gpus'", "one of gpus-per-node, gres"),
        ("modules = 'cuda'", "a list of strings"),
        ("container_runtime = 'pyxis'", "without an image"),
        ("partition = ", "not TOML"),
        ('partition = "a\\nb"', "control characters"),
    ],
)
def test_a_bad_site_file_gets_one_clear_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "site.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        load_site(path)


def test_a_missing_site_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"site\.toml: cannot be read"):
        load_site(tmp_path / "site.toml")
    assert site_from_data({}, where="x") == Site()
