"""Whether a cluster answers the requests of one client."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Contact:
    """Whether requests to a cluster are answered, as of now.

    Attributes:
        owed_seconds: For how long an answer has been due; 0 while none is.
        answered_seconds_ago: Since the newest answer; infinite before the first.
        denied: Why the cluster refuses this client, which then is owed nothing; empty while it does not.
    """

    owed_seconds: float = 0.0
    answered_seconds_ago: float = inf
    denied: str = ""

    def joined(self, other: "Contact") -> "Contact":
        """Joins the contact of two clients with one cluster."""
        return Contact(
            max(self.owed_seconds, other.owed_seconds),
            min(self.answered_seconds_ago, other.answered_seconds_ago),
            self.denied or other.denied,
        )
