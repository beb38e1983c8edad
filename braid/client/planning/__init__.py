"""Plans of what is read for Spark: ranges instead of a loop."""
