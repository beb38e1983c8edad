"""The assigner service: groups, members and leases. `README.md` says how it works."""
