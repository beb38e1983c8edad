"""Plans which ranges Spark reads, where a consumer would fetch in a loop."""
