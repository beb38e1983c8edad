"""Writes `deploy/prometheus/alerts.yaml`, the rules of alerts for Prometheus, from their declarations.

`python -m tools.alert_rules`; a test compares the file with them.
"""

import sys
from pathlib import Path
from typing import Final

from services.lagmon.alerts.rule_files import RUNBOOKS, rule_file

FILE: Final = Path(__file__).resolve().parent.parent / "deploy" / "prometheus" / "alerts.yaml"


def main() -> int:
    """Writes the file."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(rule_file(RUNBOOKS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
