"""How a missing tool is installed, by distribution."""

import pytest

from devmesh.toolchain.installing import install_command


@pytest.mark.parametrize(
    ("os_release", "command"),
    [
        ("ID=debian\n", "sudo apt-get install openjdk-17-jre-headless"),
        ('ID=ubuntu\nID_LIKE="debian"\n', "sudo apt-get install openjdk-17-jre-headless"),
        ("ID=linuxmint\nID_LIKE=ubuntu\n", "sudo apt-get install openjdk-17-jre-headless"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "sudo dnf install java-21-openjdk-headless"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', "sudo zypper install java-21-openjdk-headless"),
        ("ID=arch\n", "sudo pacman -S jre21-openjdk-headless"),
        ("ID=alpine\n", "sudo apk add openjdk21-jre-headless"),
        ("ID=plan9\n", "install `java` with this system's package manager"),
        ("", "install `java` with this system's package manager"),
    ],
)
def test_the_command_fits_the_distribution(os_release: str, command: str) -> None:
    assert install_command("java", os_release) == command


def test_this_machine_has_an_answer() -> None:
    assert "install" in install_command("go")
