"""Algorithms over the model: where traffic goes, and what comes next. Pure."""
