"""Clusters, services and applications with real faults: what chaos, soak and the larger benchmarks are played on."""
