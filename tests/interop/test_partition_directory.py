"""`kafka-dump-log` reads every file of partition directories that `PartitionLog` wrote, whatever happened to them."""

from __future__ import annotations

from pathlib import Path

from tierfetch.log.disk import OsDisk
from tierfetch.tests.interop.histories import CONFIG, copy_as_follower, fill_as_leader
from tierfetch.tests.interop.java import SUFFIXES, check_by_kafka
from tierfetch.tests.log.logs import data_batch, open_log


async def test_directory_of_a_leader(disk: OsDisk, tmp_path: Path) -> None:
    log = await open_log(disk, tmp_path / "t-0", config=CONFIG)
    await fill_as_leader(log, 0, 100)
    await fill_as_leader(log, 2, 200)
    await log.close()
    ours = check_by_kafka(tmp_path / "t-0")
    assert {path.suffix for path in ours} == SUFFIXES
    assert len([path for path in ours if path.suffix == ".log"]) >= 4


async def test_directory_of_a_follower(disk: OsDisk, tmp_path: Path) -> None:
    """Truncated where its leader's log had another history, then filled by fetches of another size."""
    leader = await open_log(disk, tmp_path / "leader" / "t-0", config=CONFIG)
    await fill_as_leader(leader, 0, 100)
    divergence = leader.state.log_end_offset // 2
    follower = await open_log(disk, tmp_path / "follower" / "t-0", config=CONFIG)
    await copy_as_follower(leader, follower)
    await fill_as_leader(follower, 1, 300)
    await follower.truncate_to(divergence)
    await fill_as_leader(leader, 4, 200)
    await copy_as_follower(leader, follower)
    await follower.close()
    await leader.close()
    check_by_kafka(tmp_path / "follower" / "t-0")
    logs = {path.name: path.read_bytes() for path in (tmp_path / "leader" / "t-0").glob("*.log")}
    assert {path.name: path.read_bytes() for path in (tmp_path / "follower" / "t-0").glob("*.log")} == logs


async def test_directory_after_a_crash(disk: OsDisk, tmp_path: Path) -> None:
    """A torn tail is cut, indexes and snapshots are made anew, and the log goes on."""
    directory = tmp_path / "t-0"
    log = await open_log(disk, directory, config=CONFIG)
    await fill_as_leader(log, 0, 100)
    end_offset = log.state.log_end_offset
    await log.flush()
    recovery_point = log.state.segments[-2].base_offset
    await log.abandon()
    last = max(directory.glob("*.log"))
    with last.open("ab") as file:
        file.write(data_batch(base_offset=end_offset, epoch=0, value=b"torn" * 50)[:-1])
    for path in [*directory.glob("*.index"), *directory.glob("*.timeindex")]:
        path.write_bytes(path.read_bytes()[:-3] + b"\x7f\xff\xff")
    log = await open_log(disk, directory, config=CONFIG, recovery_point=recovery_point)
    assert log.state.log_end_offset == end_offset
    await fill_as_leader(log, 1, 400)
    await log.close()
    check_by_kafka(directory)
