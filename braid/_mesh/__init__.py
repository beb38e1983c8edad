"""Where the mesh's own packages are: `services`, `pipelines`, `console`, `devmesh`.

In a checkout they stand at its top. A wheel carries them in this directory, so that no such name lands in an
application's site-packages. In both they are imported by the same names, once `enable` put their directory on the path
or a process was started by `mesh_command`. Only the locator lives here.
"""

import sys
from pathlib import Path


def mesh_root() -> Path:
    """The directory in which `services` and its siblings are.

    Raises:
        ModuleNotFoundError: neither a wheel nor a checkout is around this file.
    """
    here = Path(__file__).resolve().parent
    for directory in (here, here.parent.parent):
        if (directory / "devmesh" / "__init__.py").exists():
            return directory
    raise ModuleNotFoundError(
        f"the services of Braid are neither in {here} nor at the top of a checkout", name="devmesh"
    )


def enable() -> None:
    """Makes `import services`, `import devmesh`, … work in this process; first on the path, before a namesake."""
    root = str(mesh_root())
    if root not in sys.path:
        sys.path.insert(0, root)


def mesh_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of the mesh as a process, whatever its directory and environment.

    Args:
        module: For example `services.registry`; its `__main__` is run.
        arguments: What the process finds in `sys.argv[1:]`.
    """
    return [sys.executable, "-P", "-m", "braid._mesh", module, *arguments]
