"""What a fetcher knows of each partition, and how it notices a log that was cut."""
