"""How many files, connections among them, this process may have open, and how many of them callers may take."""

import resource

from braid.kernel.limits.runtime import OPEN_FILES_KEPT_MAX, OPEN_FILES_MAX


def raise_open_files() -> int:
    """Lets this process open as many files as the system allows it, within a bound; returns how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(OPEN_FILES_MAX, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most if soft == resource.RLIM_INFINITY else max(soft, most)


def for_callers(files: int) -> tuple[int, int]:
    """How many of `files` are for connections of callers, and how many for those of health checks.

    The rest stays for the event store, Kafka, files and other replicas: callers cannot take them.
    """
    kept = min(OPEN_FILES_KEPT_MAX, files // 4)
    return files - kept, kept // 2
