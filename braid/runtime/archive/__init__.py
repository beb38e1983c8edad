"""A replica's archive of histories: writes events before compaction, reads them back, and deletes expired ones."""
