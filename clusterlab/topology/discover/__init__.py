"""A live machine as a fabric, from /sys, NVML and Slurm: without a CUDA context, changing nothing.

``machine.read_machine`` looks (the only impure part); ``assemble.fabric_from_machine`` and
``join.join_machines`` build from what it read.
"""
