"""Moves a damaged log aside, so that a new one can take its place: no byte of it is deleted.

    t-0, rejected by recovery  --rename-->  t-0.<32 hex digits>-stray, until an operator removes it

A disk that keeps damaging logs would fill up: at most `ASIDE_MAX` directories of a partition are kept aside; after that
the log stays where it is, and the error says so. The caller decides whether the log may be moved.

A crash before the rename is durable leaves the damaged log; a crash after it leaves none. The checkpoint entries of the
old log are dropped before a new one is created (`LogManager.create`).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from ...protocol import ErrorCode, KafkaError, TopicPartition
from ..core.file_names import STRAY_SUFFIX, marked_directory
from ..disk.run_to_completion import run_to_completion
from ..segment.scan import CorruptLogError
from .manager import LogManager

ASIDE_MAX: Final = 3
_ANY_UNIQUE: Final = "0" * 32

logger = logging.getLogger(__name__)


def damage_of(manager: LogManager, partition: TopicPartition) -> CorruptLogError | None:
    """Return the damage that kept the log from being opened; None if its files are not the cause."""
    failure = manager.failures.get(partition)
    return failure if isinstance(failure, CorruptLogError) else None


@run_to_completion
async def put_damaged_aside(manager: LogManager, partition: TopicPartition) -> None:
    """Move a damaged log aside, durably; do nothing to a log that is open or failed for another reason.

    Raise KAFKA_STORAGE_ERROR if `ASIDE_MAX` are aside already, OSError from the disk.
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
                f"{damage.message} The log is not moved aside: {directory.path} has {len(aside)} damaged logs of "
                f"{partition}; check the disk, then remove {', '.join(sorted(aside))}",
            )
        logger.warning("%s is damaged and is moved to a -stray directory, nothing is deleted: %s", live, damage.message)
        try:
            await manager.put_aside(directory, partition, STRAY_SUFFIX)
        except OSError:
            if partition in directory.failures:
                directory.failures[partition] = damage  # the damage stays recorded, so that the move is tried again
            raise


def _is_stray_of(live: Path, name: str) -> bool:
    stem = marked_directory(live, _ANY_UNIQUE, STRAY_SUFFIX).name.removesuffix(_ANY_UNIQUE + STRAY_SUFFIX)
    return name.startswith(stem) and name.endswith(STRAY_SUFFIX)
