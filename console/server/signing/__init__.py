"""The identity of browsers: one-time links, tokens, sessions, and the rights that each session reads with."""
