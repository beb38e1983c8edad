"""Control RPCs in memory, with faults that somebody asks for: for simulation and tests."""
