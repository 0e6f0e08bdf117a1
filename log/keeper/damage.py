"""Puts a damaged log aside, so that another one can take its place: no byte of it is deleted.

    t-0, refused by recovery  --rename-->  t-0.<32 hex digits>-stray, until a person removes it

A log whose disk goes on damaging what it is given would fill that disk: at most `ASIDE_MAX` directories of a partition
lie beside it, then it stays where it is, and the error says so. Whether the log may go is decided by whoever calls.

A crash before the rename is durable leaves the damaged log, one after it none. What the checkpoints say of the old log
is dropped before a new one is made (`LogManager.create`).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.topics import TopicPartition
from ..core.file_names import STRAY_SUFFIX, marked_directory
from ..disk.run_to_completion import run_to_completion
from ..segment.scan import CorruptLogError
from .manager import LogManager

ASIDE_MAX: Final = 3
_ANY_UNIQUE: Final = "0" * 32

logger = logging.getLogger(__name__)


def damage_of(manager: LogManager, partition: TopicPartition) -> CorruptLogError | None:
    """Why the log could not be opened, if its files are to blame."""
    failure = manager.failures.get(partition)
    return failure if isinstance(failure, CorruptLogError) else None


@run_to_completion
async def put_damaged_aside(manager: LogManager, partition: TopicPartition) -> None:
    """Durable when it returns; nothing happens to a log that is open, or could not be opened for another reason.
    KAFKA_STORAGE_ERROR if there are enough already; OSError.
    """
    async with manager.changing(partition) as directory:
        damage = directory.failures.get(partition)
        if not isinstance(damage, CorruptLogError):
            return
        live = directory.path / str(partition)
        names = [entry.name for entry in await manager.services.disk.list_directory(directory.path)]
        aside = [name for name in names if _is_stray_of(live, name)]
        if len(aside) >= ASIDE_MAX:
            raise KafkaError(
                ErrorCode.kafka_storage_error,
                f"{damage.message} It is not put aside: {len(aside)} logs of {partition} were before, in "
                f"{directory.path}; look at the disk, then remove {', '.join(sorted(aside))}",
            )
        logger.warning("%s is put aside as damaged, with all that it holds: %s", live, damage.message)
        try:
            await manager.put_aside(directory, partition, STRAY_SUFFIX)
        except OSError:
            if partition in directory.failures:
                directory.failures[partition] = damage  # so that it is tried again
            raise


def _is_stray_of(live: Path, name: str) -> bool:
    stem = marked_directory(live, _ANY_UNIQUE, STRAY_SUFFIX).name.removesuffix(_ANY_UNIQUE + STRAY_SUFFIX)
    return name.startswith(stem) and name.endswith(STRAY_SUFFIX)
