"""Real cgroup freezers, where the machine lets this user make a group."""

from pathlib import Path


class Freezer:
    """A group of processes that the kernel freezes together."""

    def __init__(self, directory: Path, switch: str, words: tuple[str, str]) -> None:
        self._directory = directory
        self._switch = switch
        self._words = words

    @classmethod
    def made(cls, name: str) -> "Freezer | None":
        """One of cgroup v2, else of v1; None where this user may make none."""
        places = (("/sys/fs/cgroup", "cgroup.freeze"), ("/sys/fs/cgroup/unified", "cgroup.freeze"))
        for root, switch in (*places, ("/sys/fs/cgroup/freezer", "freezer.state")):
            directory = Path(root) / name
            try:
                directory.mkdir()
            except OSError:
                continue
            if (directory / switch).exists():
                return cls(directory, switch, ("1", "0") if switch == "cgroup.freeze" else ("FROZEN", "THAWED"))
            directory.rmdir()
        return None

    @property
    def kills(self) -> bool:
        """Whether what is frozen can be ended; v1 lets no signal through."""
        return self._switch == "cgroup.freeze"

    def take(self, pid: int) -> None:
        """Puts a process into the group."""
        (self._directory / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def freeze(self) -> None:
        """Stops all of it."""
        (self._directory / self._switch).write_text(self._words[0], encoding="ascii")

    def thaw(self) -> None:
        """Lets it go on."""
        (self._directory / self._switch).write_text(self._words[1], encoding="ascii")

    def remove(self) -> None:
        """Removes the empty group."""
        self._directory.rmdir()
