"""How the JVMs of Kafka's broker and tools are started. Pure: no I/O."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from devmesh.blueprint import BROKER_HEAP_MB

BROKER_CLASS: Final = "kafka.Kafka"
FORMAT_CLASS: Final = "kafka.tools.StorageTool"


class KafkaJvm(NamedTuple):
    """The Java program and the jars that run Kafka.

    Attributes:
        java: The binary.
        classpath: Kafka's jars, joined as Java wants them.
        heap_mb: Largest heap.
        tiered_stop_at_level: 1 starts fast and peaks low; None lets the JVM optimise fully.
    """

    java: str
    classpath: str
    heap_mb: int = BROKER_HEAP_MB
    tiered_stop_at_level: int | None = 1

    def command(self, main_class: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        """Returns the command that runs a class of Kafka's, with further options of the JVM."""
        level = self.tiered_stop_at_level
        return [
            self.java,
            "-Xms64m",
            f"-Xmx{self.heap_mb}m",
            "-XX:+UseSerialGC",
            *([] if level is None else [f"-XX:TieredStopAtLevel={level}"]),
            "-XX:+ExitOnOutOfMemoryError",
            "-Djava.awt.headless=true",
            *options,
            "-cp",
            self.classpath,
            main_class,
            *arguments,
        ]
