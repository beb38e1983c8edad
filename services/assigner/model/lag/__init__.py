"""A group's lag as lagmon tells it, and the answers to it: responses, and wanted members. Values only."""
