"""Time, given from outside: pauses, time that is busy, days, deadlines in a wheel, and forecasts. Pure."""
