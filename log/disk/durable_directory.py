"""Makes a directory whose name, and those of the parents made with it, survive a crash."""

from __future__ import annotations

from pathlib import Path

from .port import Disk


async def make_directory_durably(disk: Disk, path: Path) -> None:
    """No error if it exists."""
    made = []
    for missing in (path, *path.parents):
        if await disk.exists(missing):
            break
        made.append(missing)
    await disk.make_directory(path)
    for new in reversed(made):
        await disk.sync_directory(new.parent)
