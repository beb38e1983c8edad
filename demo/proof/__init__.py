"""The proof of the demo: a ledger without our code, evidence, and a verdict."""
