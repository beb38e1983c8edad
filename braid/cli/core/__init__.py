"""What every verb has: sessions, output, words, questions, times."""
