"""Every bound and timeout, by who keeps it, each with its why."""
