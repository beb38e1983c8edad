"""Faults that only a bucket has, over real HTTP: a server that is gone, refuses or breaks off; another mesh's
objects."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from braid.archive import bucket as bucket_module
from braid.archive.bucket import BucketPlace
from braid.kernel.errors import Invalid, NotFound, Unavailable
from tests.contract.archive.conftest import bucket_archive
from tests.contract.archive.test_archive_contract import NAME, listed
from tests.support.s3_server import S3Server

HANGING_CALLS = 6


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///prefix",
        "file:///bucket",
        "s3://key:secret@bucket",
        "s3://bucket/a//b",
        "s3://bucket/../other",
        "s3://bucket?endpoint=127.0.0.1:9000",
        "s3://bucket?acl=public",
        "s3://bucket/a#b",
    ],
)
def test_what_names_no_bucket_is_refused(url: str) -> None:
    with pytest.raises(Invalid) as told:
        BucketPlace.parse(url)
    assert told.value.field == "archive"
    assert "s3://bucket/prefix" in told.value.remedy


def test_a_place_is_read_from_its_url() -> None:
    assert BucketPlace.parse("s3://b") == BucketPlace("b")
    found = BucketPlace.parse("s3://b/x/y/?endpoint=https://minio:9000&region=eu-1")
    assert found == BucketPlace("b", "x/y", "https://minio:9000", "eu-1")


async def test_two_meshes_in_one_bucket_see_nothing_of_each_other(bucket: str, s3: S3Server) -> None:
    one, other = bucket_archive(bucket, "MESH1"), bucket_archive(bucket, "MESH2")
    await one.put(NAME, b"one")
    assert await listed(other, "") == []
    await other.delete(NAME)
    with pytest.raises(NotFound):
        await other.get(NAME)
    assert await one.get(NAME) == b"one"
    assert any(f"PUT /{BucketPlace.parse(bucket).bucket}/archive/MESH1/{NAME}" == each for each in s3.requests)


async def test_the_endpoint_may_stand_in_the_environment(
    bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    archive = bucket_archive(bucket.partition("?")[0])
    await archive.put(NAME, b"x")
    assert await archive.get(NAME) == b"x"


async def test_a_bucket_that_is_not_there_is_told_by_name(s3: S3Server) -> None:
    archive = bucket_archive(f"s3://nowhere?endpoint={s3.endpoint}&region=us-east-1")
    with pytest.raises(Unavailable, match=r"bucket nowhere.*NO_SUCH_BUCKET") as told:
        await archive.put(NAME, b"x")
    assert "AWS_" in told.value.remedy


async def test_a_lost_server_takes_nothing_and_returns_all_later(bucket: str, s3: S3Server) -> None:
    archive = bucket_archive(bucket)
    await archive.put(NAME, b"before")
    s3.stop()
    try:
        for call in (archive.put(NAME, b"x"), archive.get(NAME), archive.list(""), archive.delete(NAME)):
            with pytest.raises(Unavailable):
                await call
    finally:
        s3.start()
    assert await archive.get(NAME) == b"before"


async def test_an_upload_that_breaks_off_is_no_object(bucket: str, s3: S3Server) -> None:
    archive = bucket_archive(bucket)
    s3.refuses = lambda request: "partNumber=2" in request
    with pytest.raises(Unavailable):
        await archive.put(NAME, bytes(32 << 20))
    assert any("partNumber=1" in each for each in s3.requests), "it was sent in parts"
    s3.refuses = lambda request: False
    assert await listed(archive, "") == []
    s3.refuses = lambda request: request.startswith("PUT")
    with pytest.raises(Unavailable):
        await archive.put(NAME, b"small")
    assert await listed(archive, "") == []


async def test_a_server_that_answers_errors_is_not_called_empty(bucket: str, s3: S3Server) -> None:
    archive = bucket_archive(bucket)
    await archive.put(NAME, b"whole")
    s3.refuses = lambda request: True
    for call in (archive.get(NAME), archive.list(""), archive.put(NAME, b"x"), archive.delete(NAME)):
        with pytest.raises(Unavailable):
            await call
    s3.refuses = lambda request: False
    assert await archive.get(NAME) == b"whole"


async def test_a_stopped_server_fails_calls_in_time_and_blocks_nothing(
    bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_module, "ARCHIVE_BUCKET_REQUEST_SECONDS", 1.0)
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(HANGING_CALLS // 2))
    archive = bucket_archive(bucket)
    await archive.put(NAME, b"before")
    s3.hangs = lambda request: True
    calls = [asyncio.ensure_future(archive.get(NAME)) for _ in range(HANGING_CALLS)]
    await asyncio.sleep(0)
    other = loop.run_in_executor(None, lambda: "found")  # such as an address that is looked up
    waited: list[asyncio.Future[Any]] = [other, *calls]
    done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    assert done == {other}
    told = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(each) for each in told} == {Unavailable}
    s3.hangs = lambda request: False
    assert await archive.get(NAME) == b"before"
