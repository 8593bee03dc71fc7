"""What did I really get: masks, probes, diagnosis of rank binding."""
