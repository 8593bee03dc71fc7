"""Starting a command with the right binding, every line of its output tagged with rank, host and GPU.

What is bound is chosen by pure functions (``gpu``, ``cores``, ``nic``) from what ``machine`` reads;
``command`` starts it and ``pump`` tags what it prints. Imports stay few: every rank waits for them.
"""
