"""The verbs about access: `braid grant`, `revoke`, `can-i`."""
