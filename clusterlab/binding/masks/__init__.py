"""What a mask variable leaves a process, in pure functions: CUDA, ROCm's stacked masks, Level Zero."""

from clusterlab.binding.masks.cuda import CudaError, MaskResult, MigInstance, evaluate_cuda_mask
from clusterlab.binding.masks.level_zero import LevelZeroDevice, evaluate_ze_mask
from clusterlab.binding.masks.rocm import (
    RocmResult,
    evaluate_hip_mask,
    evaluate_rocm_masks,
    evaluate_rocr_mask,
)

__all__ = [
    "CudaError",
    "LevelZeroDevice",
    "MaskResult",
    "MigInstance",
    "RocmResult",
    "evaluate_cuda_mask",
    "evaluate_hip_mask",
    "evaluate_rocm_masks",
    "evaluate_rocr_mask",
    "evaluate_ze_mask",
]
