"""A node's logs in a test: a manager over a fake disk, opened, closed and crashed at will."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from uuid import UUID

from tierfetch.log.core import LogConfig
from tierfetch.log.disk import Disk
from tierfetch.log.keeper.log_directory import LogServices
from tierfetch.log.keeper.manager import LogManager
from tierfetch.log.keeper.upkeep import UpkeepSettings
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests.log.logs import Clock

TP = TopicPartition("t", 0)
TOPIC_ID = UUID(int=42)
LOG_DIR = Path("/data")
LIVE = LOG_DIR / str(TP)
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


class NoLock:
    """In place of the file lock, which a fake disk cannot have."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_released = False

    def release(self) -> None:
        self.is_released = True


def new_manager(
    disk: Disk,
    *,
    config: LogConfig | None = None,
    log_dirs: tuple[Path, ...] = (LOG_DIR,),
    cluster_id: str = CLUSTER_ID,
    node_id: int = 1,
    upkeep: UpkeepSettings | None = None,
    seed: int = 1,
    free_bytes_min: int = 0,
    directory_of: Callable[[TopicPartition], UUID | None] = lambda _: None,
) -> LogManager:
    return LogManager(
        log_dirs,
        LogServices(
            disk=disk,
            rng=Random(seed),
            now_ms=Clock(),
            config_of=lambda topic: config or LogConfig(segment_bytes=400),
            lock=NoLock,
            free_bytes_min=free_bytes_min,
        ),
        cluster_id=cluster_id,
        node_id=node_id,
        directory_of=directory_of,
        upkeep=upkeep or UpkeepSettings(),
    )


async def loaded(disk: Disk, **kwargs: object) -> LogManager:
    manager = new_manager(disk, **kwargs)  # type: ignore[arg-type]
    await manager.identify()
    await manager.load()
    return manager
