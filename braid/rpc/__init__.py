"""Control RPCs: transports (gRPC and memory), errors as statuses, and clients that find and follow leaders."""
