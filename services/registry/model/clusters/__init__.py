"""Clusters as the registry knows them: their state, commands, events, health, loads and losses."""
