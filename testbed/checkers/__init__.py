"""Checkers of the mesh's invariants: pure functions over facts, for simulation, demo, end-to-end and chaos runs alike.

`facts` defines what can be known of a run, `checking` runs checkers over it. Each other module holds invariants of one
subject; none of them knows where the facts came from.
"""

from testbed.checkers.checking import Checker, Violation, check

__all__ = ["Checker", "Violation", "check"]
