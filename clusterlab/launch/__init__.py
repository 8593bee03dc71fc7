"""Who am I: rank identity, rendezvous, job scripts, starting ranks."""
