"""Control RPCs over gRPC: its server, its client calls, and TLS between them."""
