"""Bounds of clients that a Kafka cluster refuses: how soon that is known, how often they try again. Seconds."""

from typing import Final

KAFKA_ACCESS_SECONDS: Final = 1.0  # to ask a cluster that does not answer a producer whether it refuses this client
KAFKA_DENIED_SECONDS: Final = 2.0  # between attempts of a refused client: brokers count failed logins, and log them
DENIED_AGAIN_SECONDS: Final = 60.0  # a refusal that lasts is logged so often
