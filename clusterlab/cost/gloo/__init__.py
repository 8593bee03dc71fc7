"""gloo: its real schedules, what they cost the host, and the constants of that cost."""
