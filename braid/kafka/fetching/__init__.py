"""The state of a fetcher for each partition, and the checks that notice a log that was cut."""
