"""A fork server as a process of its own: `python -m braid._mesh devmesh.processes.forks SOCKET MODULE …`."""

import sys

from devmesh.processes.forks.server import main

if __name__ == "__main__":
    main(sys.argv[1:])
