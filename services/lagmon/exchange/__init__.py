"""Lag monitors ask each other for the lag of the clusters that they read."""
