"""Generated from `protos/`; never edited. `make protos` writes it anew."""
