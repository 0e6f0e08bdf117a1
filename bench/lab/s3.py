"""A foreign S3 server on loopback: Versity's gateway over a directory, built by Go from its module, kept in `.lab/`.

It is written in Go, as servers of users are; moto's, which the tests use, is Python and would be measured itself.
Objects are files below `directory`, so that what has arrived can be counted without a request.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import boto3
from botocore.config import Config as BotoConfig

from tierfetch.cli.local import captured, free_ports
from tierfetch.cli.local.nodes import LOOPBACK
from tierfetch.protocol import OperatorError

from .child import CHILD, accepts, started
from .jars import LAB

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

PACKAGE: Final = "github.com/versity/versitygw/cmd/versitygw"
VERSION: Final = "v1.8.0"
BUILD_TIMEOUT_S: Final = 900
BUCKET: Final = "tier"
REGION: Final = "us-east-1"
KEY: Final = "bench-key"
SECRET: Final = "bench-secret"


class S3UnavailableError(OperatorError):
    """The server cannot be run here; the message says why."""


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running server with an empty bucket."""

    port: int
    pid: int
    directory: Path
    host: str = LOOPBACK

    def options(self, port: int | None = None) -> dict[str, str]:
        """Return `rsm.config.*` of the `s3` plugin, through another port where there is a relay."""
        return {
            "bucket": BUCKET,
            "region": REGION,
            "endpoint.url": f"http://{self.host}:{port or self.port}",
            "path.style": "true",
            "access.key.id": KEY,
            "secret.access.key": SECRET,
        }

    def sizes(self, prefix: str, suffix: str) -> dict[str, int]:
        """Return the sizes of the objects whose keys begin and end so, by key."""
        with closing(client_of(self.port, 1, self.host)) as client:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
            listed = [entry for page in pages for entry in page.get("Contents", [])]
        return {entry["Key"]: entry["Size"] for entry in listed if entry["Key"].endswith(suffix)}


def client_of(port: int, connections: int, host: str = LOOPBACK) -> S3Client:
    """Return a client of the server at this port."""
    return boto3.session.Session().client(
        "s3",
        region_name=REGION,
        endpoint_url=f"http://{host}:{port}",
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        config=BotoConfig(max_pool_connections=connections, s3={"addressing_style": "path"}, tcp_keepalive=True),
    )


def s3_program() -> Path:
    """Return the server's program, built on first use. Raise S3UnavailableError with the reason otherwise."""
    directory = LAB / f"versitygw-{VERSION}"
    program, marker = directory / "versitygw", directory / ".complete"
    if marker.exists():
        return program
    go = shutil.which("go")
    if go is None:
        raise S3UnavailableError("the S3 server is built from source: no `go` on the PATH")
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two benchmarks may need it first
        if not marker.exists():
            _build(go, directory)
            marker.touch()
    return program


def _build(go: str, directory: Path) -> None:
    command = [go, "install", f"{PACKAGE}@{VERSION}"]
    environment = {**os.environ, "GOBIN": str(directory), "GOFLAGS": "-trimpath"}
    try:
        done = captured(command, env=environment, timeout_s=BUILD_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise S3UnavailableError(f"Go did not build {PACKAGE} within {BUILD_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise S3UnavailableError(f"Go could not build {PACKAGE}: {done.stderr.strip()[-300:]}")


@contextmanager
def s3_server(
    base: Path, host: str = LOOPBACK, inside: Callable[[Sequence[str]], Sequence[str]] = list
) -> Iterator[S3Server]:
    """Run the server on an empty directory as long as the block lasts; `inside` puts it where `host` is its address."""
    directory = base / "objects"
    directory.mkdir(parents=True)
    (port,) = free_ports(1)
    keys = ["--access", KEY, "--secret", SECRET, "--region", REGION]
    command = [str(s3_program()), *keys, "--port", f"{host}:{port}", "--quiet", "posix", str(directory)]
    is_ready = partial(accepts, host, port)
    with started("the S3 server", inside(command), base / "s3-server.log", is_ready, S3UnavailableError) as children:
        server = S3Server(port, children[CHILD].pid, directory, host)
        with closing(client_of(port, 1, host)) as client:
            client.create_bucket(Bucket=BUCKET)
        yield server
