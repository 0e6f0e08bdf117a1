"""A bucket at moto's S3 server, in a thread of this process (the extra [testing])."""

from __future__ import annotations

import logging
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ...extras import needing

REQUEST_TIMEOUT_S = 10.0


@contextmanager
def moto_bucket() -> Iterator[Mapping[str, str]]:
    """Yield the options of the `s3` plugin for an empty bucket."""
    with needing("testing"):
        from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # it logs every request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint, bucket = f"http://{host}:{port}", f"tier-{uuid.uuid4().hex}"
        created = urllib.request.Request(f"{endpoint}/{bucket}", method="PUT")
        urllib.request.urlopen(created, timeout=REQUEST_TIMEOUT_S).close()
        yield {
            "bucket": bucket,
            "region": "us-east-1",
            "endpoint.url": endpoint,
            "path.style": "true",
            "access.key.id": "test-key",
            "secret.access.key": "test-secret",
        }
    finally:
        server.stop()
