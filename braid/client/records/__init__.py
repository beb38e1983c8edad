"""What an application is given and gives: records, headers, batches."""
