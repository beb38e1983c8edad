"""`braid store`: backups of the event store, taken and put back."""
