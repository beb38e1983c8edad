"""Where metrics are served: in plain text on this machine, over TLS beyond, whatever one client does."""

import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge

from braid.host.tls.files import TlsFiles
from braid.host.tls.paths import Tls
from braid.kernel.errors import Unavailable
from braid.kernel.limits.runtime import METRICS_CONNECTIONS_MAX
from braid.runtime.metrics.server import MetricsServer
from braid.runtime.process import serves_plain_metrics_beyond_this_machine
from braid.runtime.settings import Settings
from testbed.authority import Authority

STALLED = 300
AT_ONCE_SECONDS = 0.9  # a client that finds no room in the queue asks again after a second (tcp(7))
FILES = {"tls_certificate": "/a.crt", "tls_key": "/a.key", "tls_ca": "/ca.crt"}


@pytest.fixture
def authority() -> Authority:
    """Signs both sides."""
    return Authority.make()


@pytest.fixture
def servers() -> Iterator[list[MetricsServer]]:
    """Ended after the test."""
    found: list[MetricsServer] = []
    yield found
    for each in found:
        each.close()


def served(servers: list[MetricsServer], tls: Tls | None = None, *, clients_proved: bool = False) -> MetricsServer:
    """Serves one gauge."""
    registry = CollectorRegistry()
    Gauge("braid_test", "Of a test", registry=registry).set(7)
    files = TlsFiles(tls) if tls is not None else None
    servers.append(MetricsServer("127.0.0.1", 0, registry, files, clients_proved=clients_proved))
    return servers[-1]


def context(authority: Authority, client: Tls | None = None) -> ssl.SSLContext:
    """Builds the context of Prometheus' `tls_config`: a CA, and a certificate of its own where it has one."""
    made = ssl.create_default_context(cadata=authority.pem.decode())
    if client is not None:
        made.load_cert_chain(client.certificate, client.key)
    return made


def scraped(server: MetricsServer, tls: ssl.SSLContext | None = None) -> str:
    """Returns the answer to a scrape."""
    with urllib.request.urlopen(server.url, timeout=10, context=tls) as answer:
        return str(answer.read().decode())


def scrapes(server: MetricsServer, authority: Authority) -> bool:
    """Whether a client that trusts this authority alone is served."""
    try:
        return "braid_test 7.0" in scraped(server, context(authority))
    except urllib.error.URLError:
        return False


def test_plain_text_is_served_without_files(servers: list[MetricsServer]) -> None:
    server = served(servers)
    assert server.url.startswith("http://127.0.0.1:")
    assert "braid_test 7.0" in scraped(server)


def test_tls_is_served_with_the_replicas_certificate(
    servers: list[MetricsServer], authority: Authority, tmp_path: Path
) -> None:
    server = served(servers, authority.service(tmp_path))
    assert server.url.startswith("https://127.0.0.1:")
    assert "braid_test 7.0" in scraped(server, context(authority))
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        scraped(server, context(Authority.make("Other CA")))


def test_mutual_tls_serves_nobody_without_a_certificate(
    servers: list[MetricsServer], authority: Authority, tmp_path: Path
) -> None:
    server = served(servers, authority.service(tmp_path / "server"), clients_proved=True)
    assert "braid_test 7.0" in scraped(server, context(authority, authority.client(tmp_path / "client")))
    foreign = Authority.make("Other CA").client(tmp_path / "foreign")
    for client in (None, foreign):
        with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
            scraped(server, context(authority, client))


def test_a_changed_certificate_counts_from_the_next_connection(
    servers: list[MetricsServer], authority: Authority, tmp_path: Path
) -> None:
    server = served(servers, authority.service(tmp_path, reload_seconds=0.01))
    assert "braid_test 7.0" in scraped(server, context(authority))
    successor = Authority.make("Next CA")
    successor.service(tmp_path)
    deadline = time.monotonic() + 10
    while not scrapes(server, successor):
        assert time.monotonic() < deadline


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x10\x00\x01"])
def test_a_scrape_takes_the_place_of_the_oldest_stalled_client(
    said: bytes, servers: list[MetricsServer], authority: Authority, tmp_path: Path
) -> None:
    server = served(servers, authority.service(tmp_path))
    trusted = context(authority)
    stalled: list[socket.socket] = []
    try:
        for _ in range(STALLED):
            address = ("127.0.0.1", server.server_port)
            stalled.append(socket.create_connection(address, timeout=AT_ONCE_SECONDS))
            stalled[-1].sendall(said)
        for _ in range(3):
            assert "braid_test 7.0" in scraped(server, trusted)
        assert sum(each.name.startswith("Thread") for each in threading.enumerate()) <= 2 * METRICS_CONNECTIONS_MAX + 4
        stalled[0].settimeout(1.0)  # much less than its own limit
        assert stalled[0].recv(1) == b"", "the oldest is closed"
    finally:
        for each in stalled:
            each.close()


def test_the_oldest_connection_gives_its_place_and_no_other(servers: list[MetricsServer]) -> None:
    server = served(servers)
    with ExitStack() as opened:
        stalled = [
            opened.enter_context(socket.create_connection(("127.0.0.1", server.server_port), timeout=10))
            for _ in range(METRICS_CONNECTIONS_MAX)
        ]
        assert "braid_test 7.0" in scraped(server)
        stalled[0].settimeout(1.0)  # much less than its own limit
        assert stalled[0].recv(1) == b"", "the oldest is closed"
        stalled[-1].settimeout(0.05)
        with pytest.raises(TimeoutError):
            stalled[-1].recv(1)


@pytest.mark.parametrize("secure", [False, True])
def test_a_client_that_sends_a_byte_at_a_time_is_cut_off(
    secure: bool, servers: list[MetricsServer], authority: Authority, tmp_path: Path
) -> None:
    files = TlsFiles(authority.service(tmp_path)) if secure else None
    server = MetricsServer("127.0.0.1", 0, CollectorRegistry(), files, clients_proved=False, client_seconds=0.5)
    servers.append(server)
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as slow:
        cut = threading.Event()
        threading.Thread(target=trickle, args=(slow, cut), daemon=True).start()
        assert cut.wait(10)


def trickle(slow: socket.socket, cut: threading.Event) -> None:
    """Begins a TLS record, or a line of HTTP, that never ends."""
    try:
        slow.sendall(b"\x16\x03\x01\x10\x00\x01")
        while True:
            slow.sendall(b"x")
            time.sleep(0.05)
    except OSError:
        cut.set()


def test_a_taken_address_is_named(servers: list[MetricsServer]) -> None:
    taken = served(servers).server_port
    with pytest.raises(Unavailable, match=f"cannot serve metrics on 127.0.0.1:{taken}"):
        MetricsServer("127.0.0.1", taken, CollectorRegistry(), None, clients_proved=False)


@pytest.mark.parametrize(
    ("metrics", "fields", "wanted", "exposed"),
    [
        ("127.0.0.1:0", {}, "off", False),
        ("127.0.0.1:0", FILES, "off", False),
        ("0.0.0.0:7501", {}, "off", True),
        ("0.0.0.0:7501", FILES, "server", False),
        ("0.0.0.0:7501", {**FILES, "metrics_tls": "off"}, "off", True),
        ("0.0.0.0:7501", {**FILES, "metrics_tls": ""}, "server", False),
        ("127.0.0.1:0", {**FILES, "metrics_tls": "mutual"}, "mutual", False),
    ],
)
def test_remote_metrics_use_tls_where_there_is_a_certificate(
    metrics: str, fields: dict[str, str], wanted: str, exposed: bool
) -> None:
    settings = Settings.model_validate({"store": "sqlite:///x", "instance": "registry-0", "metrics": metrics, **fields})
    assert settings.served_metrics_tls == wanted
    assert serves_plain_metrics_beyond_this_machine(settings) is exposed


def test_tls_without_a_certificate_is_refused() -> None:
    with pytest.raises(ValueError, match="BRAID_METRICS_TLS: mutual needs BRAID_TLS_CERTIFICATE"):
        Settings.model_validate({"store": "sqlite:///x", "instance": "registry-0", "metrics_tls": "mutual"})
