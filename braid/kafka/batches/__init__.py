"""Record batches in bytes: reading, decompressing, and decoding into columns."""
