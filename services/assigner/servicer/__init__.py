"""The handlers of the assigner's RPCs."""
