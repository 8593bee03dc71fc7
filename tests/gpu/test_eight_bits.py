"""Products in 8 bits on a GPU: as on CPUs, faster than 16 where matrices are large; ranks learn by them."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clusterlab.launch.identity import RankIdentity
from tests.gpu.training import RANKS, on_ranks, train

pytestmark = pytest.mark.gpu


def products(identity: RankIdentity, device: Any) -> dict[str, Any]:
    """What rank 0 finds; the other does the same."""
    import torch
    from torch.nn.functional import linear

    from clusterlab.core.errors import UsageError
    from clusterlab.trainers.eight_bits import check_device, product

    try:
        check_device(device)
    except UsageError as error:
        return {"refused": str(error)}
    generator = torch.Generator().manual_seed(1)
    worst = {}
    x, w, dy = (
        torch.randn(shape, generator=generator).bfloat16()
        for shape in ((256, 512), (1024, 512), (256, 1024))
    )
    said: dict[str, dict[str, torch.Tensor]] = {}
    for where in ("cpu", device):
        own_x, own_w = (t.detach().to(where).requires_grad_() for t in (x, w))
        y = product(own_x, own_w)
        y.backward(dy.to(where))
        assert own_x.grad is not None and own_w.grad is not None
        found = {"y": y.detach(), "dx": own_x.grad, "dw": own_w.grad}
        said[str(where)] = {name: value.double().cpu() for name, value in found.items()}
    for name, value in said["cpu"].items():
        other = said[str(device)][name]
        worst[name] = float((other - value).abs().max() / value.abs().max())

    def seconds(call: Any) -> float:
        for _ in range(5):
            call()
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(30):
            call()
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / 30

    big_x = torch.randn(8192, 8192, device=device).bfloat16()
    big_w = torch.randn(8192, 8192, device=device).bfloat16()
    return {
        "worst": worst,
        "us16": seconds(lambda: linear(big_x, big_w)) * 1e6,
        "us8": seconds(lambda: product(big_x, big_w)) * 1e6,
    }


def test_a_gpu_multiplies_the_same_values_as_cpus_do(
    tmp_path: Path, gpus: int, capsys: pytest.CaptureFixture[str]
) -> None:
    said = on_ranks(products, tmp_path, one_gpu=gpus < RANKS)[0]
    if "refused" in said:
        pytest.skip(said["refused"])
    with capsys.disabled():
        print(f"\n8192³: {said['us16']:.0f} µs in bf16, {said['us8']:.0f} µs in fp8 with its casts")
    # Fast sums keep fewer bits than a CPU's; the same 8-bit values go into both.
    assert all(off < 0.01 for off in said["worst"].values()), said["worst"]


@pytest.mark.parametrize("mesh", ["dp", "tp"])
def test_ranks_learn_by_them_as_in_bf16(tmp_path: Path, gpus: int, mesh: str) -> None:
    from clusterlab.trainers.config import MeshConfig, ModelConfig, Setup, TrainConfig, check

    model = ModelConfig(layers=2, hidden=128, heads=4, ffn=256, vocab=128, sequence=64, fp8=True)
    how = TrainConfig(batch=8, dtype="bfloat16", steps=10, text=True)
    setup = check(Setup(model, MeshConfig(**{mesh: RANKS}), how))
    losses = train(setup, tmp_path, one_gpu=gpus < RANKS)[0].losses
    other = replace(setup, model=replace(model, fp8=False))
    wide = train(other, tmp_path, one_gpu=gpus < RANKS)[0].losses
    # Three bits of mantissa: single steps stray by some per cent, what is learnt over all of them does not.
    assert losses[-1] < losses[0]
    assert losses == pytest.approx(wide, rel=0.15)
    assert sum(losses) == pytest.approx(sum(wide), rel=0.03)
