"""A live machine as a fabric, from /sys, NVML and Slurm."""
