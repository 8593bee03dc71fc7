"""One rank of an all_reduce over all visible GPUs, started by torchrun."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    ones = torch.ones(1 << 20, device=device)
    dist.all_reduce(ones)
    torch.cuda.synchronize()
    if not bool((ones == dist.get_world_size()).all()):
        raise SystemExit("wrong sum")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
