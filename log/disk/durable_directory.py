"""Makes a directory whose name, and those of the parents made with it, survive a crash; or one with its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .port import Buffer, Disk


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


async def write_directory_stepwise(disk: Disk, path: Path, files: Mapping[str, Buffer]) -> None:
    """Do what `Disk.write_directory` does, by other calls of the disk: each may fail, and a crash come between them."""
    await disk.make_directory(path)
    for name, data in files.items():
        await disk.write_file(path / name, data, sync=len(data) > 0, sync_name=False)
    await disk.sync_directory(path)
    await disk.sync_directory(path.parent)
