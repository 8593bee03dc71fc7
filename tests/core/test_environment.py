"""What is kept or shown of an environment, and what must not be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.environment import ALLOWED_PREFIXES, allowed_environment


def test_variables_of_collectives_and_launchers_are_kept_sorted() -> None:
    kept = allowed_environment(
        {
            "SLURM_JOB_ID": "7",
            "NCCL_ALGO": "Ring",
            "NCCL_IB_PKEY": "0x8001",
            "CUDA_VISIBLE_DEVICES": "0,1",
            "PATH": "/bin",
            "HOME": "/root",
        }
    )
    assert list(kept) == ["CUDA_VISIBLE_DEVICES", "NCCL_ALGO", "NCCL_IB_PKEY", "SLURM_JOB_ID"]


@pytest.mark.parametrize(
    "name",
    [
        "SLURM_JWT",
        "CLUSTERLAB_TOKEN",
        "CLUSTERLAB_API_KEY",
        "TORCH_hub_secret",
        "NCCL_PASSWORD",
        "UCX_PASSPHRASE",
        "AWS_SECRET_ACCESS_KEY",
        "HF_TOKEN",
        "SLURM_COOKIE",
    ],
)
def test_secrets_are_dropped_whatever_their_prefix(name: str) -> None:
    assert allowed_environment({name: "s3cr3t"}) == {}


def test_a_password_inside_a_url_is_blanked() -> None:
    kept = allowed_environment({"CLUSTERLAB_STORE": "tcp://bob:hunter2@node1:29500/x"})
    assert kept == {"CLUSTERLAB_STORE": "tcp://…@node1:29500/x"}


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_nothing_outside_the_allowed_prefixes_is_kept(environ: dict[str, str]) -> None:
    assert all(name.startswith(ALLOWED_PREFIXES) for name in allowed_environment(environ))
