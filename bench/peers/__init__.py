"""The peers that benchmarks compare Braid with."""
