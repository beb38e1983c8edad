"""Groups, logs and lag of whole clusters as columns: what `policy` says of one row, for all rows at once. Pure."""
