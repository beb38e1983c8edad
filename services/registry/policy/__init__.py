"""Algorithms over the model: where traffic goes, and which step comes next. Pure."""
