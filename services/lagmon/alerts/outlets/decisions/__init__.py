"""Pure decisions about outlets: which notifications are due, what they say, and the history of what was sent."""
