"""syncfs(2), where it is there and tells errors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tierfetch.log.disk import OsDisk
from tierfetch.log.disk.filesystem_sync import find_syncfs


@pytest.mark.parametrize(
    ("platform", "release", "is_there"),
    [
        ("linux", "5.8.0-generic", True),
        ("linux", "6.1", True),
        ("linux", "5.7.19", False),
        ("linux", "4.19", False),
        ("linux", "odd", False),
        ("darwin", "25.1.0", False),
    ],
)
def test_kernels_that_tell_errors_have_it(platform: str, release: str, is_there: bool) -> None:
    assert (find_syncfs(platform, release) is not None) == is_there


@pytest.mark.skipif(find_syncfs() is None, reason="no syncfs(2) here that tells errors")
async def test_the_call_itself(tmp_path: Path) -> None:
    disk = OsDisk()
    together = await disk.filesystem_sync(tmp_path)
    assert together is not None
    await disk.write_file(tmp_path / "a", b"some", sync=False)
    await together.sync()
    await together.close()
    await together.close()
    await disk.close()
    syncfs = find_syncfs()
    assert syncfs is not None
    closed = os.open(tmp_path, os.O_RDONLY)
    os.close(closed)
    with pytest.raises(OSError, match="Bad file descriptor: '/here'"):
        syncfs(closed, "/here")
