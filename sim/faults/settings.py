"""What machines and the store of a world do while faults last: set again after each begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path, PurePath
from random import Random
from typing import Final

from ...log.core import RECOVERY_POINT_CHECKPOINT, decode_offsets, parse_directory
from ...protocol import CorruptRecordError
from ...protocol.records import iter_batches
from ..machine.filesystem import LOG_DIRECTORIES, SimFilesystem
from ..machine.host import Host
from ..machine.objects import SimObjectStore
from .schedule import Fault, FaultKind

SEGMENT_SUFFIX: Final = ".log"
SNAPSHOT_SUFFIX: Final = ".checkpoint"
"""The suffix of a snapshot of the metadata log."""
CORRUPTIONS_MAX: Final = 3
BEFORE_CRC: Final = frozenset((*range(8), *range(12, 16)))
"""Places of a batch that no checksum covers: its base offset and its leader epoch."""
BEHIND_CRC: Final = 21
"""Where a batch's CRC begins to cover it."""


def set_machine(host: Host, mine: Sequence[Fault]) -> None:
    """`mine` are the active faults that have this host for a target."""
    host.clock.skew_ms = int(sum(fault.value for fault in mine if fault.kind is FaultKind.CLOCK_JUMP))
    host.clock.drift_ppm = sum(fault.value for fault in mine if fault.kind is FaultKind.CLOCK_DRIFT)
    faults = host.disk_faults
    faults.slow_factor = max((fault.value for fault in mine if fault.kind is FaultKind.SLOW_DISK), default=1.0)
    faults.error_share = _largest(mine, FaultKind.DISK_ERRORS)
    faults.sync_error_share = _largest(mine, FaultKind.FAILED_FSYNC)
    faults.lost_page_share = _largest(mine, FaultKind.LOST_PAGES)
    faults.open_files_share = _largest(mine, FaultKind.OPEN_FILES)
    is_full = any(fault.kind is FaultKind.FULL_DISK for fault in mine)
    host.files.capacity_bytes = host.files.used_bytes() if is_full else None
    faults.failing = _directories(mine, FaultKind.DIRECTORY_FAILS)
    host.files.full = _directories(mine, FaultKind.DIRECTORY_FILLS)
    if not any(fault.kind is FaultKind.BIT_ROT for fault in mine):
        host.files.heal()


def log_directory(number: float) -> Path:
    """Return the broker's log directory of this number, from 1 on."""
    return LOG_DIRECTORIES[int(number) - 1]


def _directories(faults: Sequence[Fault], kind: FaultKind) -> frozenset[Path]:
    return frozenset(log_directory(fault.value) for fault in faults if fault.kind is kind)


def set_store(store: SimObjectStore, active: Sequence[Fault]) -> None:
    faults = store.faults
    faults.is_out = any(fault.kind is FaultKind.STORE_OUTAGE for fault in active)
    faults.error_share = _largest(active, FaultKind.STORE_ERRORS)
    faults.lost_reply_share = _largest(active, FaultKind.LOST_REPLIES)
    faults.half_upload_share = _largest(active, FaultKind.HALF_UPLOADS)
    faults.hung_upload_s = _largest(active, FaultKind.HUNG_UPLOADS)
    faults.corrupt_share = _largest(active, FaultKind.ROTTEN_DOWNLOADS)
    faults.list_delay_s = _largest(active, FaultKind.LATE_LISTINGS)
    faults.slow_s = _largest(active, FaultKind.SLOW_STORE)
    rates = [fault.value for fault in active if fault.kind is FaultKind.THROTTLED_STORE]
    faults.calls_per_s = min(rates, default=0.0)
    faults.short_answer_share = _largest(active, FaultKind.HALF_ANSWERS)
    faults.is_gone = any(fault.kind is FaultKind.NO_BUCKET for fault in active)


def corrupt(host: Host, rng: Random) -> list[str]:
    """A bit each of some closed segments and snapshots reads wrong from now on: where. Half of them are the newest of
    their kind that may rot: these are about to be copied.

    Of a log nothing rots at or above the recovery point that is on the disk: there a damaged batch looks like one that
    a crash has torn. Nor does what no checksum covers.
    """
    directories: dict[tuple[PurePath, str], list[Path]] = {}
    for path, inode in host.files.walk():
        if inode.content and path.suffix in (SEGMENT_SUFFIX, SNAPSHOT_SUFFIX):
            directories.setdefault((path.parent, path.suffix), []).append(path)
    at_rest = [
        _flushed(host.files, paths) if suffix == SEGMENT_SUFFIX else paths for (_, suffix), paths in directories.items()
    ]
    victims = [paths for paths in at_rest if paths]
    places = []
    for _ in range(CORRUPTIONS_MAX if victims else 0):
        paths = rng.choice(victims)
        path = paths[-1] if rng.random() < 0.5 else rng.choice(paths)
        places.append(f"{path} at byte {_corrupt(host.files, path, rng)}")
    return places


def _flushed(files: SimFilesystem, segments: Sequence[Path]) -> list[Path]:
    """The segments of a log, oldest first, that end below its recovery point on the disk."""
    directory = segments[0].parent
    name = parse_directory(directory.name)
    checkpoint = files.durable_files(directory.parent).get(RECOVERY_POINT_CHECKPOINT)
    if name is None or name.marker or checkpoint is None:
        return []
    recovery_point = decode_offsets(bytes(checkpoint.durable)).get(name.topic_partition, 0)
    return [path for path, following in pairwise(segments) if int(following.stem) <= recovery_point]


def _corrupt(files: SimFilesystem, path: Path, rng: Random) -> int | None:
    """A bit that something would show: neither the base offset of a batch nor its leader epoch is part of its CRC."""
    place, inode = files.corrupt(path, rng), files.inode(path)
    if place is not None and path.suffix == SEGMENT_SUFFIX and _is_unseen(bytes(inode.content), place):
        inode.corrupted[place + BEHIND_CRC] = inode.corrupted.pop(place)
        return place + BEHIND_CRC
    return place


def _is_unseen(content: bytes, place: int) -> bool:
    with suppress(CorruptRecordError):
        for position, header in iter_batches(content):
            if position <= place < position + header.size_bytes:
                return place - position in BEFORE_CRC
    return False


def _largest(faults: Sequence[Fault], kind: FaultKind) -> float:
    return max((fault.value for fault in faults if fault.kind is kind), default=0.0)
