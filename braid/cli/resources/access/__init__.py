"""Grants, revocations, tenants and approvals as items to show."""
