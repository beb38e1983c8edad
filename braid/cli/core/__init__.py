"""Parts that all verbs share: sessions, output, text, questions, times."""
