"""The sick disk itself: what a program sees of it is what the tests that use it count on."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.tests.process.sick_disk import SickDisk, why_not

pytestmark = [pytest.mark.faults, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SickDisk]:
    with SickDisk(tmp_path) as disk:
        yield disk


def written(path: Path, data: bytes, *, synced: bool = True) -> None:
    """Append."""
    with open(path, "ab") as file:
        file.write(data)
        file.flush()
        if synced:
            os.fsync(file.fileno())


def refused(path: Path, data: bytes) -> int:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the code is what is looked at
        written(path, data)
    code = caught.value.errno
    assert code is not None
    return code


def test_a_disk_that_is_well_is_like_any_other(disk: SickDisk) -> None:
    (disk.path / "one").mkdir()
    written(disk.path / "one" / "file", b"abc")
    os.rename(disk.path / "one" / "file", disk.path / "one" / "other")
    assert (disk.path / "one" / "other").read_bytes() == b"abc"
    os.truncate(disk.path / "one" / "other", 1)
    assert (disk.device / "one" / "other").read_bytes() == b"a"
    (disk.path / "one" / "other").unlink()
    (disk.path / "one").rmdir()
    assert list(disk.path.iterdir()) == []


def test_it_fails_where_and_as_long_as_it_is_told_to(disk: SickDisk) -> None:
    disk.fail("t-0/*.log", "write", errno.EIO)
    for name in ("t-0", "t-1"):
        (disk.path / name).mkdir()
    assert refused(disk.path / "t-0" / "0.log", b"a") == errno.EIO
    written(disk.path / "t-0" / "0.index", b"a")
    written(disk.path / "t-1" / "0.log", b"a")
    disk.heal()
    written(disk.path / "t-0" / "0.log", b"a")


def test_a_failed_fsync_may_forget_what_was_written(disk: SickDisk) -> None:
    path = disk.path / "0.log"
    written(path, b"kept")
    disk.forget("*.log")
    assert refused(path, b" and lost") == errno.EIO
    assert path.read_bytes() == b"kept"
    disk.heal()
    written(path, b" on")
    assert path.read_bytes() == b"kept on"


def test_power_may_go_without_the_program(disk: SickDisk) -> None:
    path = disk.path / "0.log"
    written(path, b"0123")
    written(path, b"45", synced=False)
    os.truncate(path, 1)
    disk.lose_unsynced()
    assert path.read_bytes() == b"0123"


def test_a_call_that_hangs_goes_on_when_the_disk_is_healed(disk: SickDisk) -> None:
    disk.hang("*.log", "write")
    writing = threading.Thread(target=written, args=(disk.path / "0.log", b"late"))
    writing.start()
    written(disk.path / "0.index", b"not held up")
    assert writing.is_alive()
    disk.heal()
    writing.join(10)
    assert (disk.path / "0.log").read_bytes() == b"late"


def test_it_is_full_at_its_limit_and_says_so_before(disk: SickDisk) -> None:
    written(disk.path / "0.log", b"a" * 8192)
    disk.limit(16384)
    found = os.statvfs(disk.path)
    assert (found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize) == (16384, 8192)
    written(disk.path / "0.log", b"a" * 8192)
    assert refused(disk.path / "0.log", b"a") == errno.ENOSPC
    (disk.path / "0.log").unlink()
    written(disk.path / "1.log", b"a")


def test_a_limit_counts_files_while_others_are_renamed_and_deleted(disk: SickDisk) -> None:
    disk.limit(1 << 20)
    ended = threading.Event()

    def rename() -> None:
        while not ended.is_set():
            (disk.device / "a").write_bytes(b"a")
            (disk.device / "a").rename(disk.device / "b")

    other = threading.Thread(target=rename)
    other.start()
    try:
        for _ in range(500):
            written(disk.path / "file", bytes(100), synced=False)
    finally:
        ended.set()
        other.join()
    assert disk.used_bytes() == 50_001
