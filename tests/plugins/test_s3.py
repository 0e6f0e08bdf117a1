"""The `s3` plugin against moto's server: what the conformance suite cannot see from outside."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest
from botocore.exceptions import IncompleteReadError
from botocore.response import StreamingBody
from mypy_boto3_s3.client import S3Client
from mypy_boto3_s3.type_defs import CompletedPartTypeDef

from tierfetch import __version__
from tierfetch.plugins import s3 as s3_module
from tierfetch.plugins.fsspec import FsspecConfig
from tierfetch.plugins.layout import segment_keys
from tierfetch.plugins.object_storage import ObjectTooLargeError
from tierfetch.plugins.s3 import S3Config, S3ObjectStore, S3RemoteStorage, _pieces_within, _read_within
from tierfetch.plugins.s3 import md5_text as s3_md5_text
from tierfetch.remote import (
    IndexType,
    RemoteStorageCorruptError,
    RemoteStorageError,
    RemoteStorageRefusedError,
    RemoteStorageTimeoutError,
)
from tierfetch.remote.look import look_at_tier
from tierfetch.remote.registry import PluginError, load_remote_storage
from tierfetch.testing.remote_storage import BytesSource, make_data, make_metadata, pattern
from tierfetch.tests.turns import turns

from .bad_servers import listing_exact_keys_only, without_checksums, without_ranges


@pytest.fixture
def client(s3_options: dict[str, str]) -> Iterator[S3Client]:
    client = boto3.client(
        "s3",
        region_name="us-east-1",
        endpoint_url=s3_options["endpoint.url"],
        aws_access_key_id="test-key",
        aws_secret_access_key="test-secret",
    )
    yield client
    client.close()


async def test_large_objects_go_in_parts_with_checksums(s3_options: dict[str, str], client: S3Client) -> None:
    storage = S3RemoteStorage(S3Config.model_validate(s3_options))
    log = pattern(11 << 20)
    await storage.copy_log_segment_data(make_metadata(len(log)), make_data(log))
    (entry,) = [
        entry
        for entry in client.list_objects_v2(Bucket=s3_options["bucket"])["Contents"]
        if entry["Key"].endswith(".log")
    ]
    assert entry["Key"].startswith("some/prefix/conformance-3-")
    assert entry["ETag"].strip('"').endswith("-3")
    await storage.close()


async def test_all_copies_share_the_uploads_and_return_them(s3_options: dict[str, str]) -> None:
    store = S3ObjectStore(S3Config.model_validate({**s3_options, "upload.parts.max": "2"}))
    loop, two_run, gate = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    began: list[int] = []

    def upload(key: str, upload_id: str, number: int, data: bytes) -> CompletedPartTypeDef:
        began.append(number)
        if len(began) == 2:
            loop.call_soon_threadsafe(two_run.set)
        gate.wait(10)
        return {"PartNumber": number, "ETag": "e"}

    store._upload_part = upload  # type: ignore[method-assign]
    store._create_upload = lambda key: "id"  # type: ignore[method-assign]
    store._complete_upload = lambda *_: None  # type: ignore[method-assign]
    store._abort_upload = lambda *_: None  # type: ignore[method-assign]
    source = BytesSource(pattern(11 << 20))
    copies = [asyncio.create_task(store.put(f"k{number}", source)) for number in range(4)]
    await two_run.wait()
    await turns()
    assert len(began) == 2, "the others wait for a place"
    copies[0].cancel()
    copies[3].cancel()
    gate.set()
    found = await asyncio.gather(*copies, return_exceptions=True)
    assert [type(each) for each in found] == [asyncio.CancelledError, type(None), type(None), asyncio.CancelledError]
    for _ in range(2):
        await asyncio.wait_for(store._uploads.acquire(), 5)
    assert store._uploads.locked()
    await store.close()


async def test_cancelled_upload_leaves_no_parts(s3_options: dict[str, str], client: S3Client) -> None:
    storage = S3RemoteStorage(S3Config.model_validate(s3_options))
    store = S3ObjectStore(S3Config.model_validate(s3_options))
    source = BytesSource(pattern(11 << 20), hangs_at=(11 << 20) - 1)
    task = asyncio.create_task(store.put("conformance-3/x.log", source))
    await source.hanging.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "Uploads" not in client.list_multipart_uploads(Bucket=s3_options["bucket"])
    await store.close()
    await storage.close()


async def test_delete_aborts_a_foreign_half_upload(s3_options: dict[str, str], client: S3Client) -> None:
    storage = S3RemoteStorage(S3Config.model_validate(s3_options))
    metadata = make_metadata(3)
    await storage.copy_log_segment_data(metadata, make_data(b"abc"))
    key = next(
        entry["Key"]
        for entry in client.list_objects_v2(Bucket=s3_options["bucket"])["Contents"]
        if entry["Key"].endswith(".log")
    )
    client.create_multipart_upload(Bucket=s3_options["bucket"], Key=key)
    client.create_multipart_upload(Bucket=s3_options["bucket"], Key="somebody/elses")
    await storage.delete_log_segment_data(metadata)
    left = client.list_multipart_uploads(Bucket=s3_options["bucket"]).get("Uploads", [])
    assert [upload["Key"] for upload in left] == ["somebody/elses"]
    await storage.close()


async def test_half_uploads_are_found_on_a_server_that_lists_exact_keys_only(
    s3_options: dict[str, str], client: S3Client
) -> None:
    storage = S3RemoteStorage(S3Config.model_validate(s3_options))
    store = storage._store
    assert isinstance(store, S3ObjectStore)
    listing_exact_keys_only(store._client)
    metadata = make_metadata(3)
    for key in (*segment_keys(metadata), "other"):
        client.create_multipart_upload(Bucket=s3_options["bucket"], Key=f"some/prefix/{key}")
    await storage.delete_log_segment_data(metadata)
    left = client.list_multipart_uploads(Bucket=s3_options["bucket"]).get("Uploads", [])
    assert [upload["Key"] for upload in left] == ["some/prefix/other"]
    await storage.close()


@pytest.mark.parametrize("size", [3, 11 << 20])
async def test_a_server_without_checksums_is_used_with_md5_and_said_without(
    s3_options: dict[str, str], client: S3Client, size: int
) -> None:
    log = pattern(size)
    metadata = make_metadata(len(log))
    for checksums in ("crc32", "md5"):
        storage = S3RemoteStorage(S3Config.model_validate({**s3_options, "checksums": checksums}))
        store = storage._store
        assert isinstance(store, S3ObjectStore)
        without_checksums(store._client)
        if checksums == "crc32":
            with pytest.raises(RemoteStorageError, match=r"NotImplemented; .* set rsm\.config\.checksums=md5"):
                await storage.copy_log_segment_data(metadata, make_data(log))
        else:
            await storage.copy_log_segment_data(metadata, make_data(log))
            assert await storage.fetch_log_segment(metadata, 0, len(log)) == log
            assert await storage.fetch_index(metadata, IndexType.OFFSET)
            await storage.delete_log_segment_data(metadata)
            assert "Contents" not in client.list_objects_v2(Bucket=s3_options["bucket"])
        await storage.close()


async def test_of_a_server_that_ignores_ranges_no_more_is_read(
    s3_options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = S3RemoteStorage(S3Config.model_validate(s3_options))
    store = storage._store
    assert isinstance(store, S3ObjectStore)
    without_ranges(store._client)
    log = pattern(3 << 20)
    metadata = make_metadata(len(log))
    await storage.copy_log_segment_data(metadata, make_data(log))
    asked: list[int | None] = []
    original = StreamingBody.read

    def counted(self: StreamingBody, amt: int | None = None) -> bytes:
        asked.append(amt)
        return original(self, amt)

    monkeypatch.setattr(StreamingBody, "read", counted)
    with pytest.raises(RemoteStorageCorruptError, match=rf"\.log: {len(log)} bytes, at most 100 are expected"):
        await storage.fetch_log_segment(metadata, 50, 150)
    assert asked == []
    assert await storage.fetch_log_segment(metadata, 0, len(log)) == log
    assert asked == [len(log), 1], "what was stated is asked for, else the SDK copies it once more"
    await storage.close()


async def test_a_stream_is_one_request(s3_options: dict[str, str]) -> None:
    storage = S3RemoteStorage(S3Config.model_validate(s3_options))
    store = storage._store
    assert isinstance(store, S3ObjectStore)
    log = pattern(3 << 20)
    metadata = make_metadata(len(log))
    await storage.copy_log_segment_data(metadata, make_data(log))
    asked: list[str] = []
    store._client.meta.events.register("before-send.s3.GetObject", lambda request, **_: asked.append(request.url))
    pieces = [piece async for piece in storage.stream_log_segment(metadata, 5, len(log), 1 << 20)]
    assert b"".join(pieces) == log[5:]
    assert [len(piece) for piece in pieces] == [1 << 20, 1 << 20, (1 << 20) - 5]
    assert len(asked) == 1
    await storage.close()


async def test_a_stream_of_a_server_that_ignores_ranges_has_no_piece(s3_options: dict[str, str]) -> None:
    """The first bytes of the object are not those that were asked for."""
    storage = S3RemoteStorage(S3Config.model_validate(s3_options))
    store = storage._store
    assert isinstance(store, S3ObjectStore)
    without_ranges(store._client)
    log = pattern(3 << 20)
    metadata = make_metadata(len(log))
    await storage.copy_log_segment_data(metadata, make_data(log))
    with pytest.raises(RemoteStorageCorruptError, match=rf"\.log: {len(log)} bytes, at most 100 are expected"):
        await anext(storage.stream_log_segment(metadata, 50, 150, 10))
    assert [len(piece) async for piece in storage.stream_log_segment(metadata, 0, len(log), 1 << 21)] == [
        1 << 21,
        1 << 20,
    ]
    await storage.close()


class Body(BytesIO):
    """A body of which `read` returns less than it is asked for, as at the end of a connection's data."""

    def __init__(self, data: bytes, at_most: int) -> None:
        super().__init__(data)
        self._at_most = at_most

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self._at_most if size is None or size < 0 else min(size, self._at_most))


@pytest.mark.parametrize("stated", [0, 100])
@pytest.mark.parametrize("at_most", [7, 30, 1000])
def test_pieces_have_their_size_however_the_bytes_come(stated: int, at_most: int) -> None:
    data = pattern(100)
    body = StreamingBody(Body(data, at_most), None)
    pieces = list(_pieces_within(body, "k", 100, stated, 30))
    assert pieces == [data[:30], data[30:60], data[60:90], data[90:]]


def test_pieces_end_with_an_error_where_the_connection_did() -> None:
    body = StreamingBody(BytesIO(pattern(100)), 150)
    pieces = _pieces_within(body, "k", 150, 150, 40)
    assert [next(pieces), next(pieces)] == [pattern(100)[:40], pattern(100)[40:80]]
    with pytest.raises(IncompleteReadError):
        next(pieces)


@pytest.mark.parametrize(("stated", "first"), [(0, None), (101, None), (100, b"a" * 40)])
def test_pieces_of_more_than_was_asked_for_are_refused(stated: int, first: bytes | None) -> None:
    body = StreamingBody(BytesIO(b"a" * 101), None)
    pieces = _pieces_within(body, "k", 100, stated, 40)
    if first is not None:
        assert next(pieces) == first
    with pytest.raises(ObjectTooLargeError, match="k: 101 bytes, at most 100"):
        list(pieces)


async def test_a_stream_that_is_left_ends_its_request(s3_options: dict[str, str]) -> None:
    """What serves it is a server that sends half of what it has announced, and then nothing."""
    gone = asyncio.Event()

    async def send_half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 206 Partial Content\r\nContent-Length: 300000\r\n\r\n" + bytes(150_000))
        await reader.read()
        gone.set()
        writer.close()

    server = await asyncio.start_server(send_half, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    options = {**s3_options, "endpoint.url": f"http://127.0.0.1:{port}", "request.timeout.ms": "400"}
    storage = S3RemoteStorage(S3Config.model_validate({**options, "retries.max": "0"}))
    pieces = storage.stream_log_segment(make_metadata(300_000), 0, 300_000, 100_000)
    assert await anext(pieces) == bytes(100_000), "it waits for no more than the piece"
    with pytest.raises(RemoteStorageError):
        await anext(pieces)
    await asyncio.wait_for(gone.wait(), 10)
    await storage.close()
    server.close()


@pytest.mark.parametrize("stated", [0, 90])
def test_no_more_is_read_than_is_expected_whatever_was_stated(stated: int) -> None:
    body = StreamingBody(BytesIO(bytes(1000)), None)
    with pytest.raises(ObjectTooLargeError, match="k: 101 bytes, at most 100"):
        _read_within(body, "k", 100, stated)
    assert len(body.read()) == 1000 - 101
    assert _read_within(StreamingBody(BytesIO(b"abc"), None), "k", 100, stated) == b"abc"


async def test_damage_on_the_way_is_seen_with_md5(s3_options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The server compares: what it got is not what was read from the segment."""
    monkeypatch.setattr(s3_module, "md5_text", lambda data: s3_md5_text(data + b"!"))
    store = S3ObjectStore(S3Config.model_validate({**s3_options, "checksums": "md5", "retries.max": "0"}))
    without_checksums(store._client)
    with pytest.raises(RemoteStorageError, match="BadDigest"):
        await store.put("a/b.log", BytesSource(b"first"))
    await store.close()


async def test_an_object_is_never_replaced_by_another(s3_options: dict[str, str]) -> None:
    store = S3ObjectStore(S3Config.model_validate(s3_options))
    await store.put("a/b.log", BytesSource(b"first"))
    await store.put("a/b.log", BytesSource(b"first"))
    with pytest.raises(RemoteStorageCorruptError, match="an object of 5 bytes already exists, expected 6 bytes"):
        await store.put("a/b.log", BytesSource(b"second"))
    assert await store.get_whole("a/b.log", 99) == b"first"
    await store.close()


async def test_parts_of_an_object_that_is_there_already_do_not_stay(
    s3_options: dict[str, str], client: S3Client
) -> None:
    """The store keeps, and bills, the parts of an upload that was not completed."""
    store = S3ObjectStore(S3Config.model_validate(s3_options))
    log = pattern(11 << 20)
    for _ in range(2):
        await store.put("a/b.log", BytesSource(log))
    assert "Uploads" not in client.list_multipart_uploads(Bucket=s3_options["bucket"])
    assert await store.get_whole("a/b.log", len(log)) == log
    await store.close()


async def test_missing_bucket_is_said(s3_options: dict[str, str]) -> None:
    storage = S3RemoteStorage(S3Config.model_validate({**s3_options, "bucket": "no-such-bucket"}))
    with pytest.raises(RemoteStorageError, match="NoSuchBucket"):
        await storage.copy_log_segment_data(make_metadata(3), make_data(b"abc"))
    await storage.close()


async def test_requests_name_the_program(s3_options: dict[str, str]) -> None:
    sent: list[bytes | str] = []

    def note(request: AWSPreparedRequest, **_: object) -> None:
        sent.append(request.headers["User-Agent"])

    store = S3ObjectStore(S3Config.model_validate(s3_options))
    store._client.meta.events.register("before-send.s3", note)
    assert await store.size("absent") is None
    await store.close()
    (name,) = sent
    assert f"tierfetch/{__version__}" in (name.decode() if isinstance(name, bytes) else name)


async def test_a_silent_server_ends_by_the_deadline(s3_options: dict[str, str]) -> None:
    connections: list[asyncio.StreamWriter] = []

    async def say_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    options = {
        **s3_options,
        "endpoint.url": f"http://127.0.0.1:{port}",
        "request.timeout.ms": "150",
        "retries.max": "0",
    }
    storage = S3RemoteStorage(S3Config.model_validate(options))
    with pytest.raises(RemoteStorageError) as caught:
        await storage.fetch_log_segment(make_metadata(3), 0, 3)
    assert isinstance(caught.value, RemoteStorageTimeoutError) or "Timeout" in str(caught.value)
    await storage.close()
    for writer in connections:
        writer.close()
    server.close()


def test_secrets_are_in_no_text(s3_options: dict[str, str]) -> None:
    config = S3Config.model_validate(s3_options)
    assert "test-secret" not in repr(config) + str(config.model_dump())
    assert "test-key" not in repr(config)


@pytest.mark.parametrize(
    ("plugin", "key", "url"),
    [
        ("s3", "endpoint.url", "https://someone:hunter2@storage:9000"),
        ("fsspec", "url", "ftp://someone:hunter2@storage/tier"),
        ("fsspec", "url", "ftp://hunter2@storage/tier"),
        ("fsspec", "url", "abfss://container:hunter2@account.dfs.core.windows.net/tier"),
    ],
)
def test_a_url_with_credentials_is_refused_and_not_shown(plugin: str, key: str, url: str) -> None:
    needed = {"bucket": "tier"} if plugin == "s3" else {}
    with pytest.raises(PluginError, match=rf"{key}: must not contain credentials") as refused:
        load_remote_storage(plugin, {**needed, key: url})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("scheme", ["abfs", "abfss", "wasb", "wasbs"])
def test_a_container_of_azure_is_no_user(scheme: str) -> None:
    url = f"{scheme}://container@account.dfs.core.windows.net/tier"
    assert FsspecConfig.model_validate({"url": url}).url == url


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"access.key.id": "only-one"}, "go together"),
        ({"part.bytes": "1"}, "greater than or equal to 5242880"),
        ({"bukket": "x"}, "Extra inputs"),
    ],
)
def test_bad_configuration_is_named(change: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        S3Config.model_validate({"bucket": "tier", **change})


async def test_a_look_tells_a_wrong_configuration_from_a_server_that_is_away(
    s3_options: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    assert await looked_at(s3_options) is None
    absent = await looked_at({**s3_options, "bucket": "no-such-bucket"})
    assert isinstance(absent, RemoteStorageRefusedError)
    assert "NoSuchBucket" in str(absent)
    keys = ("access.key.id", "secret.access.key")
    anonymous = await looked_at({key: value for key, value in s3_options.items() if key not in keys})
    assert isinstance(anonymous, RemoteStorageRefusedError)
    assert "Unable to locate credentials" in str(anonymous)
    away = await looked_at({**s3_options, "endpoint.url": "http://127.0.0.1:1", "retries.max": "0"})
    assert isinstance(away, RemoteStorageError)
    assert not isinstance(away, RemoteStorageRefusedError)


async def looked_at(options: dict[str, str]) -> RemoteStorageError | None:
    storage = S3RemoteStorage(S3Config.model_validate(options))
    try:
        return await look_at_tier(storage)
    finally:
        await storage.close()
