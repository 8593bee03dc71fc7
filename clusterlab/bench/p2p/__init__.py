"""The ways between GPUs of one machine: who may use whose memory, copies, a kernel's loads and stores, NCCL.

``plan`` says what to measure (pure), ``probe`` walks through it, ``cuda_machine`` does the work on GPUs,
``nccl_ranks`` makes NCCL connect all pairs.
"""
