"""The collector's configuration in deploy/ keeps rules that a collector would refuse to start without."""

from pathlib import Path
from typing import Final

import yaml

CONFIG: Final = Path(__file__).parents[3] / "deploy" / "collector" / "braid.yml"


def refusals(text: str) -> list[str]:
    """Returns the reasons for which a collector would refuse a configuration."""
    config = yaml.safe_load(text)
    batch = config["processors"]["batch"]
    found: list[str] = []
    if 0 < batch["send_batch_max_size"] < batch.get("send_batch_size", 8192):  # the processor's default
        found.append("batch: send_batch_max_size must be greater or equal to send_batch_size")
    for name, pipeline in config["service"]["pipelines"].items():
        for kind in ("receivers", "processors", "exporters"):
            found += [f"{name}: no {kind} {each}" for each in pipeline[kind] if each not in config[kind]]
    return found


def test_a_collector_takes_the_configuration_of_deploy() -> None:
    assert refusals(CONFIG.read_text()) == []


def test_a_configuration_that_a_collector_refuses_is_found() -> None:
    text = CONFIG.read_text()
    assert len(refusals(text.replace("    send_batch_size: 4096\n", ""))) == 1
    assert len(refusals(text.replace("  debug:\n", "  debugger:\n"))) == 2
