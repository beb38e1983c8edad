"""Runs one module of the mesh: `python -m braid._mesh services.registry …`."""

import runpy
import sys

from braid._mesh import enable

if len(sys.argv) < 2:
    sys.exit("usage: python -m braid._mesh MODULE [ARGUMENT …]")
enable()
module = sys.argv[1]
del sys.argv[1]
runpy.run_module(module, run_name="__main__", alter_sys=True)
