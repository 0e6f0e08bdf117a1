"""A fake S3 for the tests: moto's server in a thread, one bucket each test.

moto is imported by the one worker whose tests use it, and not by each that collects them: that takes a second.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import boto3
import pytest

_bucket_numbers = itertools.count()


@pytest.fixture(scope="session")
def moto_endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3_options(moto_endpoint: str) -> dict[str, str]:
    """`rsm.config.*` of the `s3` plugin for an empty bucket."""
    bucket = f"tier-{next(_bucket_numbers)}"
    options = {
        "bucket": bucket,
        "prefix": "some/prefix",
        "region": "us-east-1",
        "endpoint.url": moto_endpoint,
        "path.style": "true",
        "access.key.id": "test-key",
        "secret.access.key": "test-secret",
        "part.bytes": str(5 << 20),
    }
    client = boto3.client(
        "s3",
        region_name="us-east-1",
        endpoint_url=moto_endpoint,
        aws_access_key_id="test-key",
        aws_secret_access_key="test-secret",
    )
    client.create_bucket(Bucket=bucket)
    client.close()
    return options
