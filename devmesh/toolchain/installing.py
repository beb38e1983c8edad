"""How a missing tool is installed on this machine, for error messages. Nothing is installed from here."""

import platform
from pathlib import Path
from typing import Final

_OS_RELEASE: Final = Path("/etc/os-release")

# Package of each tool by family of distributions, and the command that installs it.
_COMMANDS: Final = {
    "debian": "sudo apt-get install",
    "fedora": "sudo dnf install",
    "suse": "sudo zypper install",
    "arch": "sudo pacman -S",
    "alpine": "sudo apk add",
    "darwin": "brew install",
}
_PACKAGES: Final = {
    "java": {
        "debian": "openjdk-17-jre-headless",
        "fedora": "java-21-openjdk-headless",
        "suse": "java-21-openjdk-headless",
        "arch": "jre21-openjdk-headless",
        "alpine": "openjdk21-jre-headless",
        "darwin": "openjdk@21",
    },
    "go": {
        "debian": "golang-go",
        "fedora": "golang",
        "suse": "go",
        "arch": "go",
        "alpine": "go",
        "darwin": "go",
    },
    "venv": {"debian": "python3-venv"},
    "mvn": {
        "debian": "maven",
        "fedora": "maven",
        "suse": "maven",
        "arch": "maven",
        "alpine": "maven",
        "darwin": "maven",
    },
}
_FAMILIES: Final = {
    "ubuntu": "debian",
    "rhel": "fedora",
    "centos": "fedora",
    "opensuse": "suse",
    "sles": "suse",
}


def install_command(tool: str, os_release: str | None = None) -> str:
    """The command that installs `java`, `go`, `mvn` or Python's `venv` here.

    Args:
        tool: Name of the tool.
        os_release: Text in the form of os-release(5); read from this machine when None.

    Returns:
        A shell command; a plain sentence where the distribution is not known.
    """
    family = _family(os_release)
    package = _PACKAGES[tool].get(family)
    if package is None:
        return f"install `{tool}` with this system's package manager"
    return f"{_COMMANDS[family]} {package}"


def _family(os_release: str | None) -> str:
    if os_release is None:
        if platform.system() == "Darwin":
            return "darwin"
        os_release = _OS_RELEASE.read_text() if _OS_RELEASE.exists() else ""
    fields = dict(line.split("=", 1) for line in os_release.splitlines() if "=" in line)
    names = [fields.get("ID", "").strip('"'), *fields.get("ID_LIKE", "").strip('"').split()]
    families = (_FAMILIES.get(name, name) for name in names)
    return next((family for family in families if family in _COMMANDS), "")
