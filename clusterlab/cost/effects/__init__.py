"""What measurements show beside NCCL's model: latencies, ramps and efficiencies by class of machine."""
