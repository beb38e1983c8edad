"""A replica's archive of histories: writing what is to be compacted, reading it again, keeping it for a time."""
