"""Bounds and timeouts of the local mesh, each with its why. Seconds unless named."""

from typing import Final

# --- tools of the local mesh (Java, Kafka's jars, etcd's binary)
TOOL_PROBE_SECONDS: Final = 10.0  # a tool tells its version; a loaded machine is slow
TOOL_RESOLVE_SECONDS: Final = 600.0  # a download or a build, on a slow line

# --- local Kafka brokers
BROKER_FORMAT_SECONDS: Final = 120.0  # one JVM start; more means the machine is stuck
BROKER_POLL_SECONDS: Final = 0.05  # between two questions whether it serves
ARCHIVE_SECONDS: Final = 180.0  # a throw-away broker serves within it, and writes its classes within it
ARCHIVES_KEPT_MAX: Final = 3  # of class archives, of tens of megabytes; a machine hardly alternates between more JVMs

# --- the local mesh
DEV_CLUSTERS_MAX: Final = 9  # each is a JVM of a few hundred megabytes
DEV_BROKERS_MAX: Final = 5  # of one cluster; more only compete for the machine
DEV_METADATA_BYTES_MAX: Final = 16 << 20  # a broker's answer about all topics of its cluster
DEV_CLUSTER_STOP_SECONDS: Final = 1.0  # for brokers whose controllers ended first; then by force
DEV_THREADS_MAX: Final = 64  # of a supervisor: each process that starts or stops keeps one waiting
DEV_REPLICAS_MAX: Final = 9  # of one service; more only compete for the machine
DEV_PORTS_TRIED_MAX: Final = 1_000  # above the wanted port; then something else is wrong
DEV_PORT_WAIT_SECONDS: Final = 2.0  # for the ports of a mesh that was killed just before
DEV_READY_SECONDS: Final = 240.0  # from start to ready; what ends is noticed at once, so this only ends a hang
DEV_STEP_SECONDS: Final = 180.0  # one broker, store or replica starts within it, on a machine that starves it
DEV_POLL_SECONDS: Final = 0.05  # between two looks at processes, while any of them changes
DEV_BRISK_SECONDS: Final = (
    30.0  # after a change: longer than a crashed service waits for its next start, and takes for it
)
DEV_CALM_SECONDS: Final = 1.0  # between two looks at processes that do not change; the end of one is told by a signal
DEV_STOP_SECONDS: Final = 10.0  # an orderly end of one process; then by force
DEV_DOWN_SECONDS: Final = 45.0  # the whole mesh ends in order; then its supervisor is killed
DEV_RESTART_SECONDS: Final = (0.25, 10.0)  # first and longest wait before a crashed service is started again
DEV_STEADY_SECONDS: Final = 30.0  # a service that ran so long starts counting crashes anew
DEV_STARTS_MAX: Final = 3  # attempts of a service to come up at all before the mesh gives up
DEV_RENEWAL_SECONDS: Final = 3_600.0  # between two looks at certificates, which are renewed a month before they end
DEV_LINE_BYTES_MAX: Final = 1 << 20  # one message on the control socket

# --- processes forked from one that has loaded their modules
FORK_REQUEST_BYTES_MAX: Final = 1 << 22  # arguments and variables of a process; Linux itself takes about two megabytes
FORK_SECONDS: Final = 60.0  # until a loaded machine has loaded the modules; then they start as programs do
FORK_NAME_BYTES: Final = 1_024  # of a fork's arguments that `ps` shows
