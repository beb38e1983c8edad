"""State of a fetcher per partition, and the checks that notice a log that was cut."""
