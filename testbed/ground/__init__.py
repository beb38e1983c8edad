"""Clusters, services and applications with real faults: the base of chaos, soak and larger benchmarks."""
