"""Spark jobs over streams, one file each: the event store, and reprocessing of a time range beside live traffic.

A job is a command (`python -m pipelines.event_store`); the table they write is `pipelines.table`.
"""
