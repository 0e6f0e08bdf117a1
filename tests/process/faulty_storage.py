"""A storage plugin that fails as a file says: `<operation> <fault>`, looked at before each call.

operation: `copy`, `delete` or `fetch` (logs, indexes). fault: `raise` (RemoteStorageError), `crash` (an error that no
plugin should raise), `hang`, `linger` (it hangs when it is cancelled, too), `short` (bytes are missing, and nothing is
said), `wrong` (a bit is flipped). Each faulty call leaves a line in `<file>.calls`. An absent file is no fault.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from tierfetch.plugins.local import LocalConfig, LocalTieredStorage
from tierfetch.remote import IndexType, LogSegmentData, RemoteStorageError, SegmentSource
from tierfetch.remote.core import RemoteLogSegmentMetadata

ENTRY_POINTS = "[tierfetch.remote_storage]\nfaulty = tierfetch.tests.process.faulty_storage:FaultyStorage\n"


def install(site: Path) -> None:
    """Make the directory a place to which PYTHONPATH may point, with the plugin `faulty` in it."""
    info = site / "faulty_tier-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty-tier\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)


class FaultyConfig(LocalConfig):
    """`rsm.config.fault`: the file that says what goes wrong."""

    fault: Path


class HalfSource:
    """The first half of another source."""

    path = None

    def __init__(self, whole: SegmentSource) -> None:
        self._whole = whole
        self.size = whole.size // 2

    async def read(self, offset: int, count: int) -> bytes:
        return await self._whole.read(offset, min(count, self.size - offset))


class FaultyStorage(LocalTieredStorage):
    """`local`, with faults."""

    Config: ClassVar[type[FaultyConfig]] = FaultyConfig

    def __init__(self, config: FaultyConfig) -> None:
        super().__init__(config)
        self._fault_file = config.fault

    async def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes | None:
        if await self._fault("copy") == "short":
            data = LogSegmentData(HalfSource(data.log), data.indexes)
        return await super().copy_log_segment_data(metadata, data)

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        fault = await self._fault("fetch")
        return self._tampered(fault, await super().fetch_log_segment(metadata, start, end))

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        fault = await self._fault("fetch")
        return self._tampered(fault, await super().fetch_index(metadata, index_type))

    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        await self._fault("delete")
        await super().delete_log_segment_data(metadata)

    async def _fault(self, operation: str) -> str:
        """The fault of this call, if it is one of its bytes."""
        wanted = self._fault_file.read_text().split() if self._fault_file.exists() else []
        if not wanted or wanted[0] != operation:
            return ""
        with self._fault_file.with_suffix(".calls").open("a") as file:
            file.write(f"{operation} {wanted[1]}\n")
        match wanted[1]:
            case "raise":
                raise RemoteStorageError("the store is not there")
            case "crash":
                raise ZeroDivisionError("a fault of the plugin")
            case "hang":
                await asyncio.Event().wait()
            case "linger":
                try:
                    await asyncio.Event().wait()
                finally:
                    await asyncio.Event().wait()
        return wanted[1]

    def _tampered(self, fault: str, content: bytes) -> bytes:
        if fault == "short":
            return content[: len(content) // 2]
        if fault == "wrong":
            middle = len(content) // 2
            return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        return content
