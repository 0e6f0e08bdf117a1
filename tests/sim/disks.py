"""A simulated disk by itself."""

from __future__ import annotations

from collections import Counter
from contextvars import copy_context
from pathlib import Path
from random import Random

from tierfetch.log.core import RECOVERY_POINT_CHECKPOINT, encode_offsets
from tierfetch.protocol.topics import TopicPartition
from tierfetch.sim.machine.disk import DiskFaults, SimDisk
from tierfetch.sim.machine.filesystem import SimFilesystem


def sim_disk(seed: int = 1, files: SimFilesystem | None = None) -> SimDisk:
    return SimDisk(files or SimFilesystem(), DiskFaults(), Random(seed), Counter(), copy_context())


def flushed_up_to(files: SimFilesystem, log: Path, recovery_point: int) -> None:
    """As the checkpoint in the log directory says, durably."""
    topic, partition = log.name.split("-")
    content = encode_offsets({TopicPartition(topic, int(partition)): recovery_point})
    files.replace(log.parent / RECOVERY_POINT_CHECKPOINT, content, sync=True)
    for directory in reversed(log.parents):
        files.sync_names(directory)
