"""Support shared by tests and benchmarks: real processes, group members that log events, and checkers of those logs."""
