"""Deterministic simulation: the production nodes, unchanged, on virtual time, with faults chosen by one seed."""
