"""The log of committed offsets (`__consumer_offsets`), read without joining anything."""
