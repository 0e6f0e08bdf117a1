"""`tier_log`: a log of one's own and its tier, on real files; reopened, killed, misused, and with a tier that fails."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tierfetch.errors import OperatorError
from tierfetch.log import EmbeddedLog, open_log, partition_log_of
from tierfetch.log.core import LogConfig
from tierfetch.plugins.local import LocalConfig, LocalTieredStorage
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.remote import RemoteStorageError, open_tier
from tierfetch.rlm import RemoteLogManagerConfig, TieredLog, tier_log

CONFIG = LogConfig(
    remote_storage_enable=True, segment_bytes=10_000, local_retention_bytes=1, retention_ms=-1, retention_bytes=-1
)
QUICK = RemoteLogManagerConfig(task_interval_ms=20, task_retry_backoff_ms=5, task_retry_backoff_max_ms=20)


def tier_of(tmp_path: Path) -> dict[str, str]:
    return {"dir": str(tmp_path / "tier")}


async def append(log: EmbeddedLog, first: int, count: int) -> None:
    for number in range(first, first + count):
        await log.append(b"%d" % number, bytes(900))


async def numbers(tiered: TieredLog, offset: int | None = None) -> list[int]:
    return [int(record.value) async for record in tiered.read(offset) if record.value and len(record.value) < 900]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - of files, and of other tasks
            await asyncio.sleep(0.005)


async def until_trimmed(tiered: TieredLog) -> None:
    """Wait until the first segment is in the tier alone."""
    await until(lambda: tiered.local_start_offset > 0)


async def test_what_was_appended_is_read_through_the_tier_and_after_a_reopening(tmp_path: Path) -> None:
    async with (
        open_log(tmp_path / "data", config=CONFIG) as log,
        tier_log(log, "local", tier_of(tmp_path), topic="events", limits=QUICK) as tiered,
    ):
        await append(log, 0, 50)
        assert await tiered.copy_all() == tiered.copied_offset == 100
        await until_trimmed(tiered)
        await append(log, 50, 3)
        assert await numbers(tiered) == [*range(53)]
        assert await numbers(tiered, 60) == [*range(30, 53)]
        assert tiered.errors is None
        identity = tiered.partition
    async with open_log(tmp_path / "data", config=CONFIG) as log:
        assert (log.start_offset, log.end_offset) == (0, 106)
        async with tier_log(log, "local", tier_of(tmp_path), topic="events", limits=QUICK) as tiered:
            assert tiered.partition == identity
            assert await numbers(tiered) == [*range(53)]
            await append(log, 53, 1)
            await tiered.copy_all()
            assert await numbers(tiered) == [*range(54)]


async def test_the_tier_is_read_without_the_log(tmp_path: Path) -> None:
    async with (
        open_log(tmp_path / "data", config=CONFIG) as log,
        tier_log(log, "local", tier_of(tmp_path), topic="events", limits=QUICK) as tiered,
    ):
        await append(log, 0, 30)
        await tiered.copy_all()
    async with open_tier("local", tier_of(tmp_path)) as tier:
        copied = await tier.log("events")
        assert (copied.start_offset, copied.end_offset) == (0, 60)
        assert [record.offset async for record in copied.read()] == [*range(60)]


async def test_retention_and_deletion_reach_the_tier(tmp_path: Path) -> None:
    async with (
        open_log(tmp_path / "data", config=CONFIG) as log,
        tier_log(log, "local", tier_of(tmp_path), limits=QUICK) as tiered,
    ):
        await append(log, 0, 50)
        await tiered.copy_all()
        await log.delete_before(60)
        with pytest.raises(KafkaError) as raised:
            await numbers(tiered, 0)
        assert raised.value.code is ErrorCode.offset_out_of_range
        assert await numbers(tiered) == [*range(30, 50)]
        await until(lambda: not list((tmp_path / "tier").rglob(f"{0:020d}-*.log")))


async def test_what_is_deleted_before_it_was_copied_is_waited_for_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalTieredStorage(LocalConfig(dir=tmp_path / "tier"))
    begun = asyncio.Event()

    async def never_ends(*_: object) -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(storage, "copy_log_segment_data", never_ends)
    async with open_log(tmp_path / "data", config=CONFIG) as log, tier_log(log, storage, limits=QUICK) as tiered:
        await append(log, 0, 30)
        copied = asyncio.create_task(tiered.copy_all())
        async with asyncio.timeout(10):
            await begun.wait()
            await until(lambda: partition_log_of(log).state.segments.active.base_offset == 60)
            for _ in range(100):
                await asyncio.sleep(0)  # now it waits for an event
            assert not copied.done()
            await log.delete_before(60)
            assert await copied == 60
    await storage.close()


async def test_a_tier_that_fails_stops_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalTieredStorage(LocalConfig(dir=tmp_path / "tier"))

    async def fails(*_: object) -> None:
        raise RemoteStorageError("the bucket is away")

    async with open_log(tmp_path / "data", config=CONFIG) as log, tier_log(log, storage, limits=QUICK) as tiered:
        with monkeypatch.context() as patch:
            patch.setattr(storage, "copy_log_segment_data", fails)
            await append(log, 0, 30)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await tiered.copy_all()
            assert "the bucket is away" in (tiered.errors or "")
            assert await numbers(tiered) == [*range(30)]
            assert tiered.local_start_offset == 0
        async with asyncio.timeout(10):
            assert await tiered.copy_all() == 60
        await until(lambda: tiered.errors is None)
    await storage.close()


async def test_what_cannot_be_tiered_is_said_at_once(tmp_path: Path) -> None:
    async with open_log(tmp_path / "plain") as log:
        with pytest.raises(OperatorError, match="is not tiered: open it with"):
            async with tier_log(log, "local", tier_of(tmp_path)):
                pass
    async with open_log(tmp_path / "data", config=CONFIG) as log:
        for name, options, topic, text in (
            ("local", {}, "log", "dir: required"),
            ("nosuch", {}, "log", "nosuch"),
            ("local", tier_of(tmp_path), "a/b", "topic name 'a/b' is illegal"),
        ):
            with pytest.raises(OperatorError, match=text):
                async with tier_log(log, name, options, topic=topic):
                    pass
        await log.append(b"still here")


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from tierfetch.tests.rlm.test_embedded import CONFIG, QUICK, append
from tierfetch.log import open_log
from tierfetch.rlm import tier_log
from tierfetch.plugins.local import DirectoryObjectStore

put = DirectoryObjectStore.put

async def killed(self, key, source):
    await put(self, key, source)
    if key.endswith(sys.argv[2]) and "00000000000000000020" in key:
        os.kill(os.getpid(), signal.SIGKILL)

DirectoryObjectStore.put = killed

async def main(path):
    async with open_log(path / "data", config=CONFIG) as log:
        async with tier_log(log, "local", {"dir": str(path / "tier")}, limits=QUICK) as tiered:
            await append(log, 0, 50)
            await tiered.copy_all()

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", [".index", ".log"])
async def test_a_process_that_is_killed_amid_a_copy_leaves_nothing_lost(tmp_path: Path, after: str) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, str(tmp_path), after)
    assert await process.wait() == -signal.SIGKILL
    async with open_log(tmp_path / "data", config=CONFIG) as log:
        found = log.end_offset
        async with tier_log(log, "local", tier_of(tmp_path), limits=QUICK) as tiered, asyncio.timeout(30):
            assert await tiered.copy_all() == found
            await until_trimmed(tiered)
            assert await numbers(tiered) == [*range(found // 2)]
    async with open_tier("local", tier_of(tmp_path)) as tier:
        assert [record.offset async for record in (await tier.log("log")).read()] == [*range(found)]


async def test_a_cancelled_block_can_be_entered_again(tmp_path: Path) -> None:
    async with open_log(tmp_path / "data", config=CONFIG) as log:

        async def tier(is_open: asyncio.Event) -> None:
            async with tier_log(log, "local", tier_of(tmp_path), limits=QUICK):
                is_open.set()
                await asyncio.Event().wait()

        await append(log, 0, 50)
        for _ in range(3):
            is_open = asyncio.Event()
            task = asyncio.create_task(tier(is_open))
            await is_open.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with tier_log(log, "local", tier_of(tmp_path), limits=QUICK) as tiered, asyncio.timeout(30):
            await tiered.copy_all()
            assert await numbers(tiered) == [*range(50)]
