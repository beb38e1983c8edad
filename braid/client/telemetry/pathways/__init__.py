"""Pathways in one process: sampled, carried on in headers, measured, and reported to lagmon."""
