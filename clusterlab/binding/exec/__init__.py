"""Starting a command with the right binding, every line of its output tagged with rank, host and GPU.

What is bound is chosen by pure functions (``gpu``, ``cores``, ``nic``) from what ``machine`` reads;
``command`` starts it and ``pump`` tags what it prints. Every rank waits for this start: imports stay
few, and records are named tuples, whose classes cost a fifth of a dataclass's to make.
"""
