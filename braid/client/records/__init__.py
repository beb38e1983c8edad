"""The values that applications receive and send: records, headers, batches."""
