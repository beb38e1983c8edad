"""What tests and benchmarks stand on: real processes, members that tell what they do, checkers of what was told."""
