"""Many runs: what their index answers."""
