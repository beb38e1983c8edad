"""One process of a service: its loop, signals, logs, metrics endpoint, ready file, and exit."""

import asyncio
import gc
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import uvloop

from braid.api.mesh.v1.endpoint_pb2 import PLAINTEXT_METRICS, PLAINTEXT_STORE, Plaintext
from braid.host.addresses import is_loopback
from braid.host.open_files import for_callers, raise_open_files
from braid.host.store_credentials import ETCD_SCHEMES, ETCD_TLS_SCHEME
from braid.host.system import system_host
from braid.host.tls.files import TlsFiles
from braid.kernel.errors import BraidError
from braid.kernel.limits.rpc import CONNECTIONS_MAX, HEALTH_CONNECTIONS_MAX
from braid.kernel.limits.runtime import (
    DRAIN_SECONDS,
    LOADING_SECONDS,
    LOOP_LAG_INTERVAL_SECONDS,
    PARENT_POLL_SECONDS,
    SHUTDOWN_SECONDS,
    TASKS_INTERVAL_SECONDS,
)
from braid.kernel.limits.store import STORE_CALL_SECONDS
from braid.kernel.ports import Host
from braid.rpc.authenticators import CertificateOrToken
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.tls import TlsServing
from braid.runtime.certificates import certificates_in_use
from braid.runtime.garbage import freeze_loaded, loading, short_collections
from braid.runtime.metrics.export import start_metrics
from braid.runtime.metrics.server import MetricsServer
from braid.runtime.opening import open_archive, open_store
from braid.runtime.replica import Replica
from braid.runtime.service import Service
from braid.runtime.settings import Settings, split_address
from braid.runtime.telemetry import Metrics, configure_logs, make_metrics, make_store_tls_expiry, make_tls_metrics
from braid.runtime.tokens.opening import tokens_of
from braid.telemetry.exporting import Telemetry


def serve(service: Service | Callable[[Host], Service], settings: Settings) -> int:
    """Runs one replica of a service until a signal (SIGTERM, SIGINT) stops it or one of its tasks fails.

    Args:
        service: The service, or a function that creates it from the process's host on the running loop.
        settings: Its settings.

    Returns:
        The process's exit code: 0 after a graceful end; else 1, with the reason on the last line of stderr.
    """
    configure_logs(settings.log_level)
    try:
        process = _Process(service, settings)
        try:
            with short_collections():
                reason = uvloop.run(process.run())
        finally:
            process.telemetry.close()
    except BraidError as error:
        reason = str(error)
    if reason:
        print(f"{settings.instance}: {reason}", file=sys.stderr, flush=True)
    return 1 if reason else 0


class _Process:
    """The parts of one serving process.

    Attributes:
        telemetry: What it exports; to be closed when its loop has ended.
    """

    def __init__(self, service: Service | Callable[[Host], Service], settings: Settings) -> None:
        self._service = service
        self._settings = settings
        self._death = ""
        self._ending = asyncio.Event()
        self.telemetry = Telemetry("braid", settings.instance)

    async def run(self) -> str:
        """Runs until the end; returns why it failed, '' after a graceful end."""
        settings = self._settings
        host = system_host(self._died, settings.clock_offset_file)
        service = self._service(host) if callable(self._service) else self._service
        self.telemetry = Telemetry(f"braid-{service.name}", settings.instance)
        self.telemetry.start_traces()
        self.telemetry.start_logs()
        metrics = make_metrics(service.name, settings.instance)
        start_metrics(self.telemetry, metrics.registry, service.name, settings.instance)
        files = tls_files(settings, metrics)
        metrics_url = serve_metrics(settings, metrics, files).url
        store_files = measure_store_certificate(settings, metrics)
        store = open_store(settings.store, host, settings.store_credentials())
        archive = open_archive(settings.archive, settings.archive_days, host, store.mesh)
        replica = Replica(
            service,
            host,
            store,
            make_transport(settings, files, host),
            address=settings.listen,
            instance=settings.instance,
            advertise=settings.advertise,
            tls_advertise=settings.tls_advertise,
            session_ttl_seconds=settings.session_ttl_seconds,
            metrics=metrics,
            archive=archive,
            access=settings.access_settings(),
            audit=settings.audit_settings(),
            plaintext=plaintext_of(settings),
            certificates=lambda: certificates_in_use(files, store_files),
        )
        self._listen_to_signals(replica)
        running = asyncio.ensure_future(replica.run())
        host.tasks.spawn(_measure_loop(host, metrics), "loop lag")
        host.tasks.spawn(_count_tasks(host, metrics), "count of tasks")
        host.tasks.spawn(self._announce(replica, metrics_url), "ready file")
        host.tasks.spawn(self._watch_parent(replica, host), "parent")
        ended = await self._until_end(replica, running)
        async with asyncio.timeout(STORE_CALL_SECONDS):
            await store.close()
            if archive is not None:
                await archive.store.close()
        return ended

    async def _until_end(self, replica: Replica, running: "asyncio.Future[None]") -> str:
        """Waits until `run` ends, by itself, by a signal or by a failure; limits how long stopping takes."""
        dying = asyncio.ensure_future(self._ending.wait())
        await asyncio.wait((running, dying), return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        replica.stop()
        await asyncio.wait((running,), timeout=DRAIN_SECONDS + SHUTDOWN_SECONDS)
        if not running.done():
            running.cancel()
            return self._death or "did not end in time"
        error = running.exception()
        if error is not None and not isinstance(error, BraidError):
            raise error
        return self._death or (str(error) if error else "")

    def _died(self, task: str, error: BaseException) -> None:
        self._death = self._death or f"{task} died: {type(error).__name__}: {error}"
        self._ending.set()

    def _listen_to_signals(self, replica: Replica) -> None:
        def end() -> None:
            replica.stop()
            self._ending.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, end)

    async def _announce(self, replica: Replica, metrics_url: str) -> None:
        freeze_loaded()
        ready = asyncio.ensure_future(replica.ready())
        with loading():
            await asyncio.wait((ready,), timeout=LOADING_SECONDS)
        await ready
        frozen = gc.get_freeze_count()
        replica.log.info("serving", address=replica.address, metrics=metrics_url, frozen=frozen)
        if serves_plaintext_beyond_this_machine(self._settings):
            replica.log.warning("plaintext is served: callers are who they say they are", listen=self._settings.listen)
        if serves_plain_metrics_beyond_this_machine(self._settings):
            replica.log.warning("metrics are served in plain text: others read them", metrics=self._settings.metrics)
        if reaches_plain_store_beyond_this_machine(self._settings):
            replica.log.warning("the store is reached in plain text: others read and change it: use etcd+tls://")
        if self._settings.ready_file is not None:
            told = {
                "address": replica.address,
                "tls_address": replica.endpoint.tls_address,
                "health": replica.health_address,
                "metrics": metrics_url,
                "pid": os.getpid(),
            }
            _write_whole(self._settings.ready_file, json.dumps(told))

    async def _watch_parent(self, replica: Replica, host: Host) -> None:
        parent = self._settings.parent_pid
        while parent and os.getppid() == parent:
            await host.clock.sleep(PARENT_POLL_SECONDS)
        if parent:
            replica.log.warning("the parent process is gone", parent=parent)
            replica.stop()
            self._ending.set()


def serves_plaintext_beyond_this_machine(settings: Settings) -> bool:
    """Whether callers on other machines can reach this replica without a certificate."""
    if settings.tls is not None and not settings.permissive:
        return False
    return not is_loopback(split_address(settings.listen)[0])


def serves_plain_metrics_beyond_this_machine(settings: Settings) -> bool:
    """Whether clients on other machines read this replica's metrics in plain text."""
    return settings.served_metrics_tls == "off" and not is_loopback(split_address(settings.metrics)[0])


def plaintext_of(settings: Settings) -> "Sequence[Plaintext.ValueType]":
    """Lists what this replica speaks with other machines in plain text about, beside control RPCs."""
    found = [PLAINTEXT_STORE] if reaches_plain_store_beyond_this_machine(settings) else []
    return [*found, *([PLAINTEXT_METRICS] if serves_plain_metrics_beyond_this_machine(settings) else [])]


def reaches_plain_store_beyond_this_machine(settings: Settings) -> bool:
    """Whether others on the way to an etcd read and change what this replica writes."""
    scheme, _, rest = settings.store.partition("://")
    if scheme not in ETCD_SCHEMES or scheme == ETCD_TLS_SCHEME:
        return False
    return any(not is_loopback(each.rpartition(":")[0]) for each in rest.rstrip("/").split(","))


def tls_files(settings: Settings, metrics: Metrics) -> TlsFiles | None:
    """The replica's own files of mutual TLS, which are counted when they end or break. Raises `Invalid`."""
    if settings.tls is None:
        return None
    tls_metrics = make_tls_metrics(metrics)
    files = TlsFiles(settings.tls, tls_metrics.unusable_files.inc)
    # Each scrape looks at the files, so that a broken one is counted where nobody connects.
    tls_metrics.expiry_seconds.set_function(lambda: files.current().expires_at - time.time())
    tls_metrics.authority_expiry_seconds.set_function(lambda: _authority_seconds(files))
    return files


def _authority_seconds(files: TlsFiles) -> float:
    authority = files.current().authority
    return math.inf if authority is None else authority.ends_at - time.time()


def measure_store_certificate(settings: Settings, metrics: Metrics) -> TlsFiles | None:
    """Measures when the certificate ends that only the event store sees, and returns its files; None without one.

    Raises:
        Invalid: the files are unusable.
    """
    shown = settings.store_credentials().tls
    if not settings.store.startswith(f"{ETCD_TLS_SCHEME}:") or shown is None or shown == settings.tls:
        return None
    files = TlsFiles(shown)
    make_store_tls_expiry(metrics).set_function(lambda: files.current().expires_at - time.time())
    return files


def make_transport(settings: Settings, files: TlsFiles | None, host: Host) -> GrpcTransport:
    """The way control RPCs come and go: in plaintext, over mutual TLS with these files, or both; with tokens or not.

    Raises:
        Invalid: the keys of tokens cannot be used.
    """
    callers, checks = for_callers(raise_open_files())
    bounded = TlsServing(
        health_listen=settings.health_listen,
        connections_max=min(CONNECTIONS_MAX, callers),
        health_connections_max=min(HEALTH_CONNECTIONS_MAX, checks),
    )
    if files is None:
        return GrpcTransport(serving=bounded)
    second_listen = settings.tls_listen or f"{split_address(settings.listen)[0]}:0"
    listens_twice = settings.permissive or settings.tokens is not None
    serving = replace(
        bounded,
        permissive_listen=second_listen if settings.permissive else "",
        mutual_listen=second_listen if settings.tokens is not None else "",
        connection_seconds=settings.tls_connection_seconds,
        connections_max=min(CONNECTIONS_MAX, callers // 2 if listens_twice else callers),
    )
    tokens = None if settings.tokens is None else tokens_of(settings.tokens, host)
    return GrpcTransport(files, serving, CertificateOrToken(tokens))


def serve_metrics(settings: Settings, metrics: Metrics, files: TlsFiles | None) -> MetricsServer:
    """Serves the metrics as the settings say. Raises `Unavailable` when the address is taken."""
    host, port = split_address(settings.metrics)
    wanted = settings.served_metrics_tls
    shown = files if wanted != "off" else None
    return MetricsServer(host.strip("[]"), port, metrics.registry, shown, clients_proved=wanted == "mutual")


def _write_whole(path: Path, text: str) -> None:
    """Writes a file atomically: readers see all of it or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text)
    part.replace(path)


async def _measure_loop(host: Host, metrics: Metrics) -> None:
    while True:
        before = host.clock.elapsed()
        await host.clock.sleep(LOOP_LAG_INTERVAL_SECONDS)
        metrics.loop_lag_seconds.observe(max(0.0, host.clock.elapsed() - before - LOOP_LAG_INTERVAL_SECONDS))


async def _count_tasks(host: Host, metrics: Metrics) -> None:
    """Counts the loop's tasks again and again. Not often, because `all_tasks` visits each of tens of thousands."""
    while True:
        metrics.tasks.set(len(asyncio.all_tasks()))
        await host.clock.sleep(TASKS_INTERVAL_SECONDS)
