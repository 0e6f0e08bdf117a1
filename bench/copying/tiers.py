"""Run the tiers that are copied to. All of them keep objects as files of one directory, which is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tierfetch.cli.local import TierSettings

from ..lab.s3 import s3_server

LOCAL: Final = "local"
S3: Final = "s3"
FSSPEC: Final = "fsspec"
TIERS: Final = (LOCAL, S3, FSSPEC)


@dataclass(frozen=True, slots=True)
class Tier:
    """What brokers are configured with, where the objects are, and the processes of the store."""

    settings: TierSettings
    directory: Path
    pids: tuple[int, ...] = ()


@contextmanager
def running_tier(name: str, base: Path) -> Iterator[Tier]:
    """Run an empty tier as long as the block lasts. S3UnavailableError where its server cannot be had."""
    directory = base / "tier"
    if name == S3:
        with s3_server(base / "s3") as server:
            yield Tier(TierSettings("s3", server.options()), server.directory, (server.pid,))
    elif name == FSSPEC:
        yield Tier(TierSettings("fsspec", {"url": f"file://{directory}"}), directory)
    else:
        assert name == LOCAL, name
        yield Tier(TierSettings("local", {"dir": str(directory)}), directory)
