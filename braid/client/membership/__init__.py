"""Sessions of a member with the assigner: hello, heartbeats, leases."""
