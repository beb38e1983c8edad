"""A bucket over TLS: a CA of one's own, errors that say what is wrong, and no plain text to other machines."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from braid.archive.bucket import BucketPlace
from braid.kernel.errors import Invalid, NotFound, Unavailable
from testbed.authority import Authority
from tests.contract.archive.conftest import bucket_archive
from tests.contract.archive.test_archive_contract import NAME
from tests.support.s3_server import PASSWORD, REGION, USER, S3Server


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[S3Server, Path]]:
    """A server over TLS with a bucket `past`, and its CA's file."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", USER)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", PASSWORD)
    files = Authority.make().service(tmp_path)
    server = S3Server((str(files.certificate), str(files.key))).start()
    server.make_bucket("past", str(files.ca))
    yield server, files.ca
    server.stop()


async def test_a_ca_of_ones_own_is_trusted(secure: tuple[S3Server, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    server, ca = secure
    url = f"s3://past/a?endpoint={server.endpoint}&region={REGION}"
    named = bucket_archive(f"{url}&ca={ca}")
    await named.put(NAME, b"one")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(ca))
    by_environment = bucket_archive(url)
    assert await by_environment.get(NAME) == b"one"
    with pytest.raises(NotFound):
        await by_environment.get("registry/none")


async def test_an_authority_that_is_not_trusted_is_told(secure: tuple[S3Server, Path]) -> None:
    server, ca = secure
    other = ca.with_name("other.crt")
    other.write_bytes(Authority.make("Other CA").pem)
    archive = bucket_archive(f"s3://past/a?endpoint={server.endpoint}&region={REGION}&ca={other}")
    with pytest.raises(Unavailable) as raised:
        await archive.get(NAME)
    assert "ca=FILE" in raised.value.remedy, raised.value


async def test_an_endpoint_without_tls_is_told(s3: S3Server) -> None:
    endpoint = s3.endpoint.replace("http:", "https:")
    archive = bucket_archive(f"s3://past/a?endpoint={endpoint}&region={REGION}")
    with pytest.raises(Unavailable) as raised:
        await archive.get(NAME)
    assert "does the endpoint speak TLS" in raised.value.remedy, raised.value


def test_plain_text_to_other_machines_needs_explicit_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Invalid, match="in plain text") as raised:
        bucket_archive("s3://past?endpoint=http://minio:9000")
    assert raised.value.field == "archive"
    bucket_archive("s3://past?endpoint=http://minio:9000&plaintext=true")
    bucket_archive("s3://past?endpoint=http://127.0.0.1:9000")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://minio:9000")
    with pytest.raises(Invalid, match="http://minio:9000 in plain text"):
        bucket_archive("s3://past")


def test_a_ca_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="is not there"):
        bucket_archive(f"s3://past?endpoint=https://minio:9000&ca={tmp_path}/none.crt")


@pytest.mark.parametrize("text", ["yes", "1"])
def test_what_is_neither_true_nor_false_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="neither true nor false"):
        BucketPlace.parse(f"s3://past?plaintext={text}")
