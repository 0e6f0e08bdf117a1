"""S3 servers that lack what others have, made of moto's: each answers as the real one was seen to."""

from __future__ import annotations

from base64 import b64encode
from hashlib import md5
from io import BytesIO
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from mypy_boto3_s3.client import S3Client

NO_CHECKSUMS = b"<Error><Code>NotImplemented</Code><Message>A header is not implemented</Message></Error>"


BAD_DIGEST = b"<Error><Code>BadDigest</Code><Message>The Content-MD5 is wrong</Message></Error>"


class _Raw(BytesIO):
    def stream(self, **_: Any) -> list[bytes]:
        return [self.getvalue()]


def answer(request: AWSPreparedRequest, status: int, body: bytes) -> AWSResponse:
    """An answer that never came over the wire."""
    return AWSResponse(request.url, status, {"content-type": "application/xml"}, _Raw(body))


def body_of(request: AWSPreparedRequest) -> bytes:
    """What is sent; botocore wraps it in a file."""
    body = request.body
    if isinstance(body, bytes):
        return body
    data = body.read()
    body.seek(0)
    return bytes(data)


def without_checksums(client: S3Client) -> None:
    """s3proxy 2.6: NotImplemented for every header of the additional checksums; Content-MD5 is compared."""

    def before_send(request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
        names = [str(name).lower() for name in request.headers]
        has_checksum = any(name.startswith(("x-amz-checksum", "x-amz-sdk-checksum", "x-amz-trailer")) for name in names)
        if has_checksum:
            return answer(request, 501, NO_CHECKSUMS)
        # As bytes, whatever the stubs say: botocore's signer has been there.
        stated = cast("bytes | None", request.headers.get("Content-MD5"))
        if stated is None or stated == b64encode(md5(body_of(request), usedforsecurity=False).digest()):
            return None
        return answer(request, 400, BAD_DIGEST)

    client.meta.events.register("before-send.s3", before_send)


def without_ranges(client: S3Client) -> None:
    """A store that answers a range with the whole object, as HTTP allows."""

    def before_call(params: dict[str, Any], **_: Any) -> None:
        params["headers"].pop("Range", None)

    client.meta.events.register("before-call.s3.GetObject", before_call)


def listing_exact_keys_only(client: S3Client) -> None:
    """MinIO: ListMultipartUploads knows the uploads of exactly the key that is given as the prefix."""

    def before_call(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["asked_prefix"] = parse_qs(urlsplit(params["url"]).query).get("prefix", [""])[0] or params[
            "query_string"
        ].get("prefix", "")

    def after_call(parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        uploads = parsed.get("Uploads", [])
        parsed["Uploads"] = [upload for upload in uploads if upload["Key"] == context["asked_prefix"]]

    client.meta.events.register("before-call.s3.ListMultipartUploads", before_call)
    client.meta.events.register("after-call.s3.ListMultipartUploads", after_call)
