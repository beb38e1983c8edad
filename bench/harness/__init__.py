"""Shared by the benchmarks: rounds, tables, load, and a broker or a mesh to run against."""
