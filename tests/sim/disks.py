"""A simulated disk by itself."""

from __future__ import annotations

from collections import Counter
from contextvars import copy_context
from random import Random

from tierfetch.sim.disk import DiskFaults, SimDisk
from tierfetch.sim.filesystem import SimFilesystem


def sim_disk(seed: int = 1, files: SimFilesystem | None = None) -> SimDisk:
    return SimDisk(files or SimFilesystem(), DiskFaults(), Random(seed), Counter(), copy_context())
