"""A supervisor as a process of its own: `python -m braid._mesh devmesh CONFIG`, the configuration as JSON.

`devmesh.mesh` starts it and reads its reason, the last line of its output, when it could not start.
"""

import json
import sys

from braid.kernel.errors import BraidError
from devmesh.config import config_from_json
from devmesh.control import error_document
from devmesh.supervisor import supervise


def main(arguments: list[str]) -> int:
    """Runs a mesh; 0 when it ended because it was told to, else 1."""
    try:
        supervise(config_from_json(arguments[0]), foreground=False)
    except BraidError as error:
        print(json.dumps(error_document(error)), file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
