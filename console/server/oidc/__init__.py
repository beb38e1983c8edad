"""Signing in with a provider of OpenID Connect: the authorization code flow with PKCE, and tokens renewed in time."""
