"""Processes of Python modules as forks of one process that has loaded them: to load them takes more than a second.

`server` is the process that forks, `client` is the side that asks it, and `forked` is the fork: a process that
differs from one started anew only in how it came to be. Linux only; elsewhere, and where a fork cannot be had, modules
start as programs do.
"""
