"""Days in the units that clocks count in."""

from typing import Final

DAY_SECONDS: Final = 86_400
DAY_MS: Final = 86_400_000


def days_until(ends_seconds: float, now_seconds: float) -> float:
    """Days from now until something ends; negative afterwards. Both moments in seconds since the epoch."""
    return (ends_seconds - now_seconds) / DAY_SECONDS
