"""Security profiles: found by name, refused by name, sent only where they may be, and their secrets never told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from braid.host import secret_files
from braid.kafka.allowed_hosts import parse_allowed_host
from braid.kafka.cluster import AioKafka
from braid.kafka.profiles.reading import read_profile
from braid.kafka.security import Security
from braid.kernel.errors import BraidError, ClusterAccessDenied, Invalid
from braid.kernel.ports import Isolation, KafkaCluster, TopicPartition
from testbed.patience import until
from tests.support.tls_files import Authority

PLAIN = 'security_protocol = "SASL_PLAINTEXT"\nusername = "braid"\npassword = "hunter2"\nplaintext_password = true\n'


def profile(directory: Path, monkeypatch: pytest.MonkeyPatch, text: str, mode: int = 0o600) -> Path:
    """The file of a profile `prod`."""
    path = directory / "prod.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    path.chmod(mode)
    monkeypatch.setenv("BRAID_KAFKA_PROFILES", str(directory))
    return path


def refusal() -> Invalid:
    """Why the profile `prod` is refused; the error names it, and not its secret."""
    with pytest.raises(Invalid, match="'prod'") as refused:
        read_profile("prod")
    assert refused.value.field == "security_profile" and refused.value.remedy
    assert "hunter2" not in str(refused.value)
    return refused.value


def test_no_profile_is_plain_text() -> None:
    assert read_profile("") == Security()
    assert Security().client_settings()["security_protocol"] == "PLAINTEXT"


def test_a_profile_is_found_by_variable_or_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    secret.chmod(0o600)
    own = tmp_path / "own.toml"
    own.write_text(
        'security_protocol = "SASL_PLAINTEXT"\nsasl_mechanism = "SCRAM-SHA-512"\n'
        f'username = "braid"\npassword_file = "{secret}"\n'
    )
    (tmp_path / "tls.toml").write_text('security_protocol = "SSL"\n')
    monkeypatch.setenv("BRAID_KAFKA_PROFILE_PROD_EAST", str(own))
    monkeypatch.setenv("BRAID_KAFKA_PROFILES", str(tmp_path))
    expected = Security("SASL_PLAINTEXT", "SCRAM-SHA-512", "braid", "hunter2", None, "prod-east")
    assert read_profile("prod-east") == expected
    assert "hunter2" not in repr(expected)
    assert read_profile("tls").ssl_context is not None


@pytest.mark.parametrize(
    "text",
    [
        'security_protocol = "SASL_SSL"\nusername = "braid"\n',
        'security_protocol = "GUESS"\n',
        'security_protocol = "SASL_PLAINTEXT"\nsasl_mechanism = "GSSAPI"\nusername = "a"\npassword = "hunter2"\n',
        'user = "braid"\npassword = "hunter2"\n',
        'security_protocol = "SSL"\nca_file = "/nonexistent"\n',
        "password = hunter2",
        "\udcff",
    ],
)
def test_a_profile_that_makes_no_sense_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    profile(tmp_path, monkeypatch, text)
    refusal()


def test_an_unknown_profile_and_a_bad_address_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BRAID_KAFKA_PROFILES", raising=False)
    kafka = AioKafka("test")
    with pytest.raises(Invalid, match="BRAID_KAFKA_PROFILE_PROD_EAST"):
        kafka.cluster("localhost:9092", "prod-east")
    for bootstrap in ("", "localhost", "localhost:", "localhost:http", "localhost:0", "a:1,,b:2"):
        with pytest.raises(Invalid) as refused:
            kafka.cluster(bootstrap, "")
        assert refused.value.field == "bootstrap"
    kafka.cluster("localhost:9092,[::1]:9093", "")


# --- a password without TLS


def test_a_profile_with_a_password_in_plaintext_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile(tmp_path, monkeypatch, PLAIN.replace("plaintext_password = true\n", ""))
    assert "readable to everybody" in refusal().message and "plaintext_password = true" in refusal().remedy
    profile(tmp_path, monkeypatch, PLAIN.replace("true", "false"))
    assert "readable to everybody" in refusal().message
    profile(tmp_path, monkeypatch, PLAIN.replace("true", '"true"'))
    assert "plaintext_password = 'true'" in refusal().message
    profile(tmp_path, monkeypatch, PLAIN)
    allowed = read_profile("prod")
    assert allowed.password == "hunter2"
    assert any("without TLS" in each for each in allowed.warnings)


def test_scram_without_tls_works_and_its_profile_is_warned_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PLAIN.replace("plaintext_password = true", 'sasl_mechanism = "SCRAM-SHA-256"\nhosts = ["a:1"]')
    profile(tmp_path, monkeypatch, text)
    [warning] = read_profile("prod").warnings
    assert "SCRAM-SHA-256 without TLS" in warning and "'prod'" in warning
    profile(tmp_path, monkeypatch, text.replace("SASL_PLAINTEXT", "SASL_SSL") + "\nsystem_ca = true")
    assert read_profile("prod").warnings == ()


# --- files with secrets


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o660])
def test_secret_files_open_to_others_refuse_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    path = profile(tmp_path, monkeypatch, PLAIN, mode)
    assert f"{path}, which is open to other users (its mode is {mode:04o})" in refusal().message
    assert refusal().remedy == f"chmod 600 {path}"
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    secret.chmod(mode)
    text = PLAIN.replace('password = "hunter2"', f'password_file = "{secret}"')
    profile(tmp_path, monkeypatch, text, 0o644)  # which holds no secret itself
    assert str(secret) in refusal().message
    secret.chmod(0o400)
    assert read_profile("prod").password == "hunter2"


def test_a_private_key_open_to_others_refuses_the_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    for each in (certificate, key):
        each.write_text("hunter2")
        each.chmod(0o644)
    text = f'security_protocol = "SSL"\ncertificate_file = "{certificate}"\n'
    profile(tmp_path, monkeypatch, text)
    assert f"{certificate}, which is open" in refusal().message  # it holds the key, too
    profile(tmp_path, monkeypatch, text + f'key_file = "{key}"\n')
    assert f"{key}, which is open" in refusal().message
    key.chmod(0o600)
    assert "cannot be read: SSLError" in refusal().message  # it comes to be loaded


def test_a_mounted_secret_is_read_by_its_group_and_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret"
    path.write_text("hunter2")
    owner = path.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    for mode, problem in ((0o440, False), (0o640, False), (0o660, True), (0o444, True)):
        path.chmod(mode)
        assert bool(secret_files.exposure(path)) is problem, f"{mode:04o}"


# --- where a profile may be sent


@pytest.mark.parametrize(
    ("hosts", "problem"),
    [
        ("[]", "no list of addresses"),
        ('"kafka.example.com:9093"', "no list of addresses"),
        ("[9093]", "no list of addresses"),
        ('["kafka.example.com"]', "is not host:port"),
        ('["a:1", "*:9093"]', "'\\*:9093'"),
    ],
)
def test_hosts_are_out_of_form_and_the_profile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: str, problem: str
) -> None:
    profile(tmp_path, monkeypatch, f"{PLAIN}hosts = {hosts}\n")
    with pytest.raises(Invalid, match=problem):
        read_profile("prod")
    assert "write" in refusal().remedy or "example.com" in refusal().remedy


def test_an_address_outside_its_profile_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile(tmp_path, monkeypatch, PLAIN + 'hosts = ["*.example.com:9093", "10.0.0.1:*"]\n')
    kafka = AioKafka("test")
    warnings = kafka.check_profile("b1.example.com:9093,10.0.0.1:1", "prod")
    assert [each for each in warnings if "names no hosts" in each] == []
    for bootstrap in ("evil.org:9093", "b1.example.com:9093,evil.org:9093", "b1.example.com:9092"):
        with pytest.raises(Invalid) as refused:
            kafka.check_profile(bootstrap, "prod")
        assert refused.value.field == "bootstrap"
        assert "'prod'" in refused.value.message and bootstrap.rpartition(",")[2] in refused.value.message
        assert "hosts" in refused.value.remedy and "hunter2" not in str(refused.value)
    assert kafka.check_profile("anywhere:1", "") == ()


def test_a_profile_says_which_user_it_logs_in_as(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile(tmp_path, monkeypatch, PLAIN)
    kafka = AioKafka("test")
    assert (kafka.user("prod"), kafka.user("")) == ("braid", "ANONYMOUS")
    with pytest.raises(Invalid):
        kafka.user("missing")
    assert Security("SASL_SSL", "OAUTHBEARER", "somebody").user == "", "the token says it"
    files = Authority(tmp_path / "tls").issue("registry")
    assert "CN=registry" in Security("SSL", certificate_file=files.certificate).user
    assert Security("SSL", certificate_file=tmp_path / "missing.pem").user == ""


def test_a_secret_profile_without_hosts_is_used_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile(tmp_path, monkeypatch, PLAIN.replace("SASL_PLAINTEXT", "SASL_SSL") + "system_ca = true\n")
    [warning] = AioKafka("test").check_profile("anywhere:1", "prod")
    assert "'prod' carries a secret and names no hosts" in warning and "hosts = [" in warning
    profile(tmp_path, monkeypatch, 'security_protocol = "SSL"\n')
    assert AioKafka("test").check_profile("anywhere:1", "prod") == ()


@asynccontextmanager
async def listener() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that answers nothing: its port, and what each connection sent first."""
    received: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(1_000))
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], received
    finally:
        server.close()
        await server.wait_closed()


async def ask_admin(cluster: KafkaCluster) -> None:
    admin = cluster.admin()
    try:
        await admin.describe_cluster()
    finally:
        await admin.close()


async def read_offsets(cluster: KafkaCluster) -> None:
    offsets = cluster.offsets()
    try:
        await offsets.committed("g", None)
    finally:
        await offsets.close()


async def join_group(cluster: KafkaCluster) -> None:
    membership = cluster.membership()
    try:
        await membership.reserve("g")
    finally:
        await membership.close()


async def send_record(cluster: KafkaCluster) -> None:
    producer = cluster.producer(linger_ms=0, compression=None, max_batch_bytes=10_000)
    try:
        await producer.start()
        await (await producer.send(TopicPartition("logs", 0), b"x", None, [], 1))
    finally:
        await producer.abandon()


@pytest.mark.parametrize("use", [ask_admin, read_offsets, join_group, send_record])
async def test_a_client_sends_nothing_to_an_address_not_in_its_profile(
    use: Callable[[KafkaCluster], Awaitable[None]],
) -> None:
    async with listener() as (port, received):
        hosts = (parse_allowed_host(f"kafka.example.com:{port}"), parse_allowed_host("127.0.0.1:1"))
        bounded = Security("SASL_PLAINTEXT", "PLAIN", "braid", "hunter2", profile="prod", hosts=hosts)
        with pytest.raises(ClusterAccessDenied, match=rf"'prod' may not be sent to 127\.0\.0\.1:{port}") as denied:
            await use(AioKafka("test", lambda _: bounded).cluster(f"127.0.0.1:{port}", "prod"))
        assert denied.value.withheld and not denied.value.authenticated
        assert received == []


async def test_a_fetcher_sends_nothing_to_an_address_off_its_profile() -> None:
    async with listener() as (port, received):
        bounded = Security(profile="prod", hosts=(parse_allowed_host("kafka.example.com:*"),))
        cluster = AioKafka("test", lambda _: bounded).cluster(f"127.0.0.1:{port}", "prod")
        fetcher = cluster.fetcher(max_partition_bytes=1 << 20, isolation=Isolation.READ_COMMITTED, client_rack="")
        starting = asyncio.ensure_future(fetcher.start())
        fetcher.assign({TopicPartition("logs", 0): 0})
        await until(lambda: bool(fetcher.contact().denied), "the fetcher was not refused")
        assert "'prod' may not be sent to" in fetcher.contact().denied
        starting.cancel()
        await fetcher.close()
        assert received == []


async def test_a_listener_hears_a_client_led_to_a_listed_address() -> None:
    """Shows that the listener of the test above would notice."""
    async with listener() as (port, received):
        allowed = Security(
            "SASL_PLAINTEXT", "PLAIN", "b", "p", profile="prod", hosts=(parse_allowed_host(f"127.0.0.1:{port}"),)
        )
        with pytest.raises(BraidError):
            await ask_admin(AioKafka("test", lambda _: allowed).cluster(f"127.0.0.1:{port}", "prod"))
        assert received
