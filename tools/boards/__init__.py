"""Grafana's dashboards of Braid, made from the declarations of its metrics."""
