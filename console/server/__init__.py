"""The console's server: control APIs as JSON and server-sent events, for people who signed in."""
