"""The `s3` plugin: Amazon S3 or any server that speaks its API, through boto3.

* Credentials come from boto3's standard chain unless both keys are configured; they appear in no message.
* Small objects are one conditional PUT, larger ones a multipart upload whose parts are read and sent one after the
  other, `upload_parts_max` at a time over all copies: memory is bounded by that times `part_bytes`, and consumers find
  connections free.
* Each part carries the CRC-32 of the bytes as they were read from the segment; the server checks it, and the checksum
  that it returns is compared too. Whole-object reads (indexes) are checked against the stored checksum by botocore;
  ranges of logs are not, whose batches have checksums of their own. For servers without additional checksums
  `checksums=md5` sends Content-MD5 instead, which the server checks; reads are not checked then.
* A range in pieces is one GET, each piece passed on when it has come. An answer that states another size than was asked
  for has no piece; one that breaks off, or does not end where it said, is an error after those that came.
* The server needs conditional writes (If-None-Match) and ListMultipartUploads for one key.
* Writes say If-None-Match: an object is never replaced. One that is there already with the same size counts as stored
  (a retried copy), any other size is an error.
* A cancelled or timed-out copy aborts its upload; what remains is aborted by the delete of the segment.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypedDict, TypeVar

import boto3
from botocore.config import Config as BotoConfig
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError
from pydantic import Field, SecretStr, model_validator

from .. import __version__
from ..remote import (
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    RemoteStorageRefusedError,
    SegmentSource,
)
from .object_storage import (
    ObjectTooLargeError,
    StorageConfig,
    StreamingObjectStorage,
    refuse_credentials,
    try_to_clean_up,
)
from .threads import Abandoned, AbandonedError, BlockingCalls

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, GetObjectOutputTypeDef

T = TypeVar("T")

PART_BYTES_MIN = 5 << 20
PARTS_MAX = 10_000
DELETE_KEYS_MAX = 1_000
REFUSED_CODES = frozenset(
    {
        "403",
        "AccessDenied",
        "AllAccessDisabled",
        "AuthorizationHeaderMalformed",
        "InvalidAccessKeyId",
        "InvalidBucketName",
        "NoSuchBucket",
        "PermanentRedirect",
        "SignatureDoesNotMatch",
    }
)
"""The errors of a configuration that must be corrected; ExpiredToken and the like pass by themselves."""
UNSUPPORTED_CODES = frozenset({"501", "NotImplemented"})
CHECKSUMS_HINT = (
    "; it may lack additional checksums (x-amz-checksum-crc32, x-amz-sdk-checksum-algorithm): set"
    " rsm.config.checksums=md5. It also has to support If-None-Match and ListMultipartUploads"
)
USER_AGENT: Final = f"tierfetch/{__version__}"
"""What the server's log names. The SDK's own, of the machine and all that is configured, is put together again for each
request, and is a seventh of the CPU time of a small one.
"""
NOT_FOUND_CODES = frozenset({"404", "NoSuchKey", "NotFound", "NoSuchUpload"})


class S3Config(StorageConfig):
    """`rsm.config.*` of the `s3` plugin."""

    bucket: str = Field(min_length=3, max_length=63, description="Name of an existing bucket.")
    prefix: str = Field("", description="Beginning of every key; a slash is added where it has none.")
    region: str | None = Field(None, description="AWS region; boto3's own rules where absent.")
    endpoint_url: str | None = Field(None, description="Another server with S3's API, as http(s)://host:port.")
    path_style: bool = Field(False, description="Bucket in the path instead of the host name.")
    access_key_id: SecretStr | None = Field(None, description="Only where the standard chain does not serve.")
    secret_access_key: SecretStr | None = Field(None, description="Goes together with access.key.id; never shown.")
    checksums: Literal["crc32", "md5"] = Field(
        "crc32", description="What the server checks of an upload; md5 for servers without additional checksums."
    )
    part_bytes: int = Field(16 << 20, ge=PART_BYTES_MIN, description="Size of a part of a multipart upload.")
    upload_parts_max: int = Field(4, ge=1, le=64, description="Uploads under way at once, over all copies.")
    connections_max: int = Field(16, ge=1, le=256, description="Threads and connections of the plugin.")
    retries_max: int = Field(3, ge=0, le=20, description="Retries by boto3 within one request's deadline.")

    @model_validator(mode="after")
    def _check_credentials(self) -> S3Config:
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ValueError("access.key.id and secret.access.key go together: give both or neither")
        refuse_credentials("endpoint.url", self.endpoint_url, "give access.key.id and secret.access.key")
        return self


@contextmanager
def storage_errors(what: str) -> Iterator[None]:
    """Turn the SDK's errors into the port's; only codes and the SDK's own sentence are shown. `what` is an object's key
    or a prefix; the empty one is the whole bucket.
    """
    what = what or "the bucket"
    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in NOT_FOUND_CODES:
            raise RemoteResourceNotFoundError(f"{what}: not in the bucket ({code})") from None
        kind = RemoteStorageRefusedError if code in REFUSED_CODES else RemoteStorageError
        hint = CHECKSUMS_HINT if code in UNSUPPORTED_CODES else ""
        raise kind(f"{what}: the S3 server rejected the request with {code or 'no code'}{hint}") from error
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise RemoteStorageRefusedError(f"{what}: {error}") from error
    except BotoCoreError as error:
        raise RemoteStorageError(f"{what}: {type(error).__name__}: {error}") from error


def crc32_text(data: bytes) -> str:
    return base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode("ascii")


def md5_text(data: bytes) -> str:
    """Return the value of Content-MD5, which guards against damage on the way and nothing else."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode("ascii")


class _Sums(TypedDict, total=False):
    """The checksums of an upload, one of them."""

    ChecksumCRC32: str
    ContentMD5: str


class S3ObjectStore:
    """Objects below one prefix of one bucket."""

    def __init__(self, config: S3Config) -> None:
        self._config = config
        self._bucket = config.bucket
        self._has_checksums = config.checksums == "crc32"
        self._prefix = f"{config.prefix.rstrip('/')}/" if config.prefix else ""
        self._calls = BlockingCalls("tierfetch-s3", config.connections_max)
        self._client: S3Client = make_client(config)
        self._uploads = asyncio.Semaphore(config.upload_parts_max)
        """Taken before bytes are read. Bounds the memory of all copies, and the threads that compete with the loop."""

    async def _call(self, what: str, call: Callable[[], T]) -> T:
        def on_thread(abandoned: Any) -> T:
            abandoned.check()
            with storage_errors(what):
                return call()

        try:
            return await self._calls.run(what, on_thread)
        except AbandonedError as error:
            raise RemoteStorageError(f"{what}: cancelled before it began") from error

    async def put(self, key: str, source: SegmentSource) -> None:
        if source.size <= self._config.part_bytes:
            async with self._uploads:
                await self._put_whole(key, await read_exactly(source, 0, source.size))
        else:
            await self._put_parts(key, source)

    async def _put_whole(self, key: str, data: bytes) -> None:
        def put() -> None:
            sums = self._sums(data)
            answer = self._client.put_object(
                Bucket=self._bucket, Key=self._prefix + key, Body=data, IfNoneMatch="*", **sums
            )
            compare_checksums(key, sums, answer.get("ChecksumCRC32"))

        await self._unless_stored(key, len(data), put)

    async def _put_parts(self, key: str, source: SegmentSource) -> None:
        part_bytes = max(self._config.part_bytes, -(-source.size // PARTS_MAX))
        upload_id = await self._call(key, lambda: self._create_upload(key))
        try:
            parts = await self._send_parts(key, upload_id, source, part_bytes)
            is_ours = await self._unless_stored(key, source.size, lambda: self._complete_upload(key, upload_id, parts))
        except BaseException:
            await try_to_clean_up(self._abort(key, upload_id))
            raise
        if not is_ours:
            await try_to_clean_up(self._abort(key, upload_id))

    def _create_upload(self, key: str) -> str:
        full_key = self._prefix + key
        if not self._has_checksums:
            return self._client.create_multipart_upload(Bucket=self._bucket, Key=full_key)["UploadId"]
        return self._client.create_multipart_upload(Bucket=self._bucket, Key=full_key, ChecksumAlgorithm="CRC32")[
            "UploadId"
        ]

    def _complete_upload(self, key: str, upload_id: str, parts: list[CompletedPartTypeDef]) -> None:
        self._client.complete_multipart_upload(
            Bucket=self._bucket,
            Key=self._prefix + key,
            UploadId=upload_id,
            MultipartUpload={"Parts": parts},
            IfNoneMatch="*",
        )

    async def _send_parts(
        self, key: str, upload_id: str, source: SegmentSource, part_bytes: int
    ) -> list[CompletedPartTypeDef]:
        async def send(number: int, data: bytes) -> CompletedPartTypeDef:
            return await self._call(key, lambda: self._upload_part(key, upload_id, number, data))

        tasks: list[asyncio.Task[CompletedPartTypeDef]] = []
        try:
            async with asyncio.TaskGroup() as group:
                for number, position in enumerate(range(0, source.size, part_bytes), start=1):
                    await self._uploads.acquire()
                    try:
                        data = await read_exactly(source, position, min(part_bytes, source.size - position))
                        task = group.create_task(send(number, data))
                    except BaseException:
                        self._uploads.release()
                        raise
                    task.add_done_callback(lambda _: self._uploads.release())  # also of one that never began
                    tasks.append(task)
        except ExceptionGroup as errors:
            raise first_error(errors) from errors
        return [task.result() for task in tasks]

    def _upload_part(self, key: str, upload_id: str, number: int, data: bytes) -> CompletedPartTypeDef:
        sums = self._sums(data)
        answer = self._client.upload_part(
            Bucket=self._bucket, Key=self._prefix + key, UploadId=upload_id, PartNumber=number, Body=data, **sums
        )
        compare_checksums(f"{key} part {number}", sums, answer.get("ChecksumCRC32"))
        part: CompletedPartTypeDef = {"PartNumber": number, "ETag": answer["ETag"]}
        if "ChecksumCRC32" in sums:
            part["ChecksumCRC32"] = sums["ChecksumCRC32"]
        return part

    def _sums(self, data: bytes) -> _Sums:
        """Return what the server checks the bytes of an upload by."""
        return {"ChecksumCRC32": crc32_text(data)} if self._has_checksums else {"ContentMD5": md5_text(data)}

    async def _unless_stored(self, key: str, size: int, write: Callable[[], None]) -> bool:
        """Run a conditional write. False if the key is taken, by an object with the size of ours: that is fine too."""

        def conditional() -> bool:
            try:
                write()
            except ClientError as error:
                if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") not in {409, 412}:
                    raise
                return False
            return True

        if await self._call(key, conditional):
            return True
        stored = await self.size(key)
        if stored != size:
            raise RemoteStorageCorruptError(f"{key}: an object of {stored} bytes already exists, expected {size} bytes")
        return False

    async def _abort(self, key: str, upload_id: str) -> None:
        await self._call(key, lambda: self._abort_upload(self._prefix + key, upload_id))

    def _abort_upload(self, full_key: str, upload_id: str) -> None:
        self._client.abort_multipart_upload(Bucket=self._bucket, Key=full_key, UploadId=upload_id)

    async def get(self, key: str, start: int, end: int) -> bytes:
        def fetch() -> bytes:
            answer = self._client.get_object(
                Bucket=self._bucket, Key=self._prefix + key, Range=f"bytes={start}-{end - 1}"
            )
            with closing(answer["Body"]) as body:
                return _read_within(body, key, end - start, answer.get("ContentLength", 0))

        return await self._call(key, fetch)

    async def get_pieces(self, key: str, start: int, end: int, piece_bytes: int) -> AsyncGenerator[bytes, None]:
        def fetch(abandoned: Abandoned) -> Generator[bytes, None, None]:
            abandoned.check()
            with storage_errors(key):
                answer = self._client.get_object(
                    Bucket=self._bucket, Key=self._prefix + key, Range=f"bytes={start}-{end - 1}"
                )
                with closing(answer["Body"]) as body:
                    yield from _pieces_within(body, key, end - start, answer.get("ContentLength", 0), piece_bytes)

        async with aclosing(self._calls.pieces(key, fetch)) as pieces:
            async for piece in pieces:
                yield piece

    async def get_whole(self, key: str, size_max: int) -> bytes:
        def fetch() -> bytes:
            answer = self._get_object(self._prefix + key)
            with closing(answer["Body"]) as body:
                return _read_within(body, key, size_max, answer.get("ContentLength", 0))

        return await self._call(key, fetch)

    def _get_object(self, full_key: str) -> GetObjectOutputTypeDef:
        """Ask for the whole object, whose checksum is then checked while it is read."""
        if self._has_checksums:
            return self._client.get_object(Bucket=self._bucket, Key=full_key, ChecksumMode="ENABLED")
        return self._client.get_object(Bucket=self._bucket, Key=full_key)

    async def size(self, key: str) -> int | None:
        def head() -> int:
            return self._client.head_object(Bucket=self._bucket, Key=self._prefix + key)["ContentLength"]

        try:
            return await self._call(key, head)
        except RemoteResourceNotFoundError:
            return None

    async def delete(self, keys: Sequence[str]) -> None:
        def delete(chunk: Sequence[str]) -> None:
            answer = self._client.delete_objects(
                Bucket=self._bucket,
                Delete={"Objects": [{"Key": self._prefix + key} for key in chunk], "Quiet": True},
            )
            for failed in answer.get("Errors", []):
                raise RemoteStorageError(f"{failed.get('Key')}: not deleted: {failed.get('Code')}")

        await self._calls.settled(keys)
        if not self._has_checksums:  # DeleteObjects demands one
            await asyncio.gather(*(self._call(key, partial(self._delete_one, self._prefix + key)) for key in keys))
            return
        for first in range(0, len(keys), DELETE_KEYS_MAX):
            chunk = keys[first : first + DELETE_KEYS_MAX]
            await self._call(chunk[0], lambda chunk=chunk: delete(chunk))  # type: ignore[misc]

    def _delete_one(self, full_key: str) -> None:
        self._client.delete_object(Bucket=self._bucket, Key=full_key)

    async def discard_unfinished(self, keys: Sequence[str]) -> None:
        def abort_all(full_key: str) -> None:
            # Key by key: MinIO lists the uploads of exactly the prefix that it is given, or of all keys.
            pages = self._client.get_paginator("list_multipart_uploads").paginate(Bucket=self._bucket, Prefix=full_key)
            for page in pages:
                for upload in page.get("Uploads", []):
                    if upload["Key"] == full_key:
                        self._abort_upload(full_key, upload["UploadId"])

        await asyncio.gather(*(self._call(key, partial(abort_all, self._prefix + key)) for key in keys))

    async def list(self, key_prefix: str, start_after: str = "") -> AsyncIterator[tuple[str, int]]:
        behind = {"StartAfter": self._prefix + start_after} if start_after else {}
        async for page in self._pages(key_prefix, **behind):
            for entry in page.get("Contents", []):
                yield entry["Key"].removeprefix(self._prefix), entry["Size"]

    async def directories(self, key_prefix: str) -> AsyncIterator[str]:
        async for page in self._pages(key_prefix, Delimiter="/"):
            for entry in page.get("CommonPrefixes", []):
                yield entry["Prefix"].removeprefix(self._prefix + key_prefix).rstrip("/")

    async def _pages(self, key_prefix: str, **request: str) -> AsyncIterator[Any]:
        def page(request: Any) -> Any:
            return self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix + key_prefix, **request)

        while True:
            answer = await self._call(key_prefix, partial(page, request))
            yield answer
            if "NextContinuationToken" not in answer:
                return
            request = {**request, "ContinuationToken": answer["NextContinuationToken"]}

    async def close(self) -> None:
        await self._calls.close()
        self._client.close()


def make_client(config: S3Config) -> S3Client:
    timeout_s = config.request_timeout_ms / 1000
    try:
        return boto3.session.Session().client(
            "s3",
            region_name=config.region,
            endpoint_url=config.endpoint_url,
            config=BotoConfig(
                connect_timeout=min(10.0, timeout_s),
                read_timeout=timeout_s,
                max_pool_connections=config.connections_max,
                retries={"mode": "standard", "total_max_attempts": config.retries_max + 1},
                s3={"addressing_style": "path"} if config.path_style else {},
                tcp_keepalive=True,
                user_agent=USER_AGENT,
                request_checksum_calculation="when_supported" if config.checksums == "crc32" else "when_required",
                response_checksum_validation="when_required",  # of whole objects
            ),
            aws_access_key_id=secret(config.access_key_id),
            aws_secret_access_key=secret(config.secret_access_key),
        )
    except (BotoCoreError, ValueError) as error:
        raise RemoteStorageError(f"s3 plugin: {error}") from error


def secret(value: SecretStr | None) -> str | None:
    return value.get_secret_value() if value is not None else None


async def read_exactly(source: SegmentSource, position: int, count: int) -> bytes:
    data = await source.read(position, count)
    if len(data) != count:
        raise RemoteStorageError(
            f"{source.path}: {len(data)} of {count} bytes at {position}: the file is shorter than stated"
        )
    return data


def _read_within(body: StreamingBody, key: str, size_max: int, stated: int = 0) -> bytes:
    """Return all of the body. ObjectTooLargeError where it has, or is `stated` to have, more than `size_max` bytes: a
    store that ignores a range, or says one size and sends another, costs no memory. What is asked for is what was
    stated: then the SDK returns the bytes as they were received, and does not put them together once more.
    """
    if stated > size_max:
        raise ObjectTooLargeError(key, stated, size_max)
    parts, left, wanted = [], size_max + 1, stated or size_max + 1
    while left and (part := body.read(wanted)):  # the empty one at the end is when the SDK checks size and checksum
        parts.append(part)
        left -= len(part)
        wanted = left
    if not left:
        raise ObjectTooLargeError(key, size_max + 1, size_max)
    return b"".join(parts)


def _pieces_within(body: StreamingBody, key: str, size_max: int, stated: int, piece_bytes: int) -> Iterator[bytes]:
    """Yield all of the body in pieces, each as soon as it has come. ObjectTooLargeError as `_read_within`, and before
    any piece of an answer that states more bytes than were asked for: those may be others.
    """
    if stated <= 0:
        whole = _read_within(body, key, size_max)  # what does not say its size is known to be right at its end
        yield from (whole[start : start + piece_bytes] for start in range(0, len(whole), piece_bytes))
        return
    if stated > size_max:
        raise ObjectTooLargeError(key, stated, size_max)
    left = stated
    while left:
        piece = _read_up_to(body, min(piece_bytes, left))
        if not piece:
            break
        left -= len(piece)
        yield piece
    if body.read(1):  # also for the SDK, which checks the size where nothing is left
        raise ObjectTooLargeError(key, stated + 1, size_max)


def _read_up_to(body: StreamingBody, size: int) -> bytes:
    """Return so many bytes, or what there is until the end."""
    first = body.read(size)
    if len(first) == size or not first:
        return first
    parts, left = [first], size - len(first)
    while left and (part := body.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def compare_checksums(what: str, sums: _Sums, answered: str | None) -> None:
    """RemoteStorageCorruptError if the server stored other bytes than were sent, as far as it says what it stored."""
    sent = sums.get("ChecksumCRC32")
    if sent is not None and answered is not None and answered != sent:
        raise RemoteStorageCorruptError(f"{what}: sent CRC-32 {sent}, the server stored {answered}")


def first_error(errors: ExceptionGroup) -> Exception:
    first = errors.exceptions[0]
    return first_error(first) if isinstance(first, ExceptionGroup) else first


class S3RemoteStorage(StreamingObjectStorage):
    """The tier in a bucket of Amazon S3, or of a server with its API."""

    Config: ClassVar[type[S3Config]] = S3Config
    may_copy_in_worker = True

    def __init__(self, config: S3Config) -> None:
        super().__init__(S3ObjectStore(config), config)
