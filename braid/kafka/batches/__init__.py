"""Record batches as bytes: read, decompressed, laid out as columns."""
