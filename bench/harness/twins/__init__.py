"""A mesh of real services and a real store over clusters in memory, filled to a size that no machine holds for real."""
