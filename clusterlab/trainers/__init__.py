"""Trainers: strategies of parallel training as plans, and the torch halves that execute exactly those."""
