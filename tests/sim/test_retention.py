"""What retention was allowed to take, told from batches, clocks and configurations made by hand."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import ClusterImage, PartitionRegistration, TopicImage
from tierfetch.controller.image.image import MetadataImage
from tierfetch.log.core import EpochEntry
from tierfetch.plugins.layout import partition_directory
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.quorum.listener import CommittedBatch
from tierfetch.sim.judges import retention
from tierfetch.sim.judges.core.coverage import CoverageJudge
from tierfetch.sim.judges.core.events import FaultsChanged, LogStartMoved, MetadataChanged, RecordsDeleted
from tierfetch.sim.judges.core.judge import Judges
from tierfetch.sim.judges.core.partition import InvariantViolationError, ReplicaStatus
from tierfetch.sim.judges.observer import ReplicaObserver
from tierfetch.sim.judges.retention import DECIDED_S, LATE_MS, RecentClock, RetentionJudge
from tierfetch.sim.machine.clock import EPOCH_MS
from tierfetch.sim.machine.filesystem import SimFilesystem
from tierfetch.sim.machine.world import World

NAME = TopicIdPartition(UUID(int=1), "t", 0)
DIRECTORY = Path("/data")


def batch(base_offset: int, *, at_ms: int = 0, epoch: int = 0) -> bytes:
    """Of two records, written so long after the start."""
    records = [Record(base_offset + index, EPOCH_MS + at_ms, None, b"v" * 100) for index in range(2)]
    return build_batch(records, base_offset=base_offset, partition_leader_epoch=epoch)


BATCH_BYTES = len(batch(0))


def image(**configs: str) -> ClusterImage:
    keys = {key.replace("_", "."): value for key, value in configs.items()}
    topic = TopicImage("t", NAME.topic_id, keys, {0: PartitionRegistration(1, 0, 5, (1, 2), (1, 2))})
    return ClusterImage("c", {}, {"t": topic}, {})


def status(start: int, *, node_id: int = 1, local_start: int = 8, leads: bool = True) -> ReplicaStatus:
    epochs = (EpochEntry(0, start),)
    return ReplicaStatus(node_id, 1, 0, 0 if leads else None, start, max(start, local_start), 12, 12, epochs)


class Scene:
    """Offsets [0, 8) in the tier, two batches an object, written a second apart; [8, 12) in the files of node 1."""

    def __init__(self, world: World, now: ClusterImage) -> None:
        self.world = world
        self.image = now
        self.observer = ReplicaObserver(lambda _: None, lambda *_: None, lambda _: None)
        files = SimFilesystem()
        files.make_directory(DIRECTORY / "t-0")
        local = batch(8, at_ms=4_000) + batch(10, at_ms=5_000)
        files.replace(DIRECTORY / "t-0" / f"{8:020}.log", local, sync=True)
        for base in (0, 4):
            world.store.put(self.key(base), batch(base, at_ms=base * 500) + batch(base + 2, at_ms=base * 500 + 1_000))
        self.clock = world.host("broker-1").clock
        machine = (RecentClock(self.clock), files)
        coverage = CoverageJudge(world.store.objects)
        self.judges = Judges()
        self.judge = RetentionJudge(
            self.observer, lambda: self.image, world.store, coverage, {1: machine, 2: machine}, DIRECTORY
        )
        self.judges.add(self.judge)
        world.store.subscribers.append(self.judges.on_inside)

    def starts(self, before: ReplicaStatus | None, now: ReplicaStatus) -> None:
        self.judge.on(LogStartMoved(NAME, before, now))

    def faults_change(self, at_s: float) -> None:
        self.world.loop.now_s = at_s
        self.judge.on(FaultsChanged())

    @staticmethod
    def key(base: int) -> str:
        return f"{partition_directory(NAME)}/{base:020}-AAAAAAAAAAAAAAAAAAAAAA.log"

    def rises(self, to: int, *, at_ms: int, before: int = 0) -> None:
        self.world.loop.now_s = at_ms / 1000
        self.starts(status(before), status(to))


@pytest.fixture
def world():
    with World(1) as made:
        yield made


def refuses(why: str):
    return pytest.raises(InvariantViolationError, match=why)


def test_by_time_goes_what_is_older_by_the_leaders_clock(world: World) -> None:
    Scene(world, image(retention_ms="2000")).rises(4, at_ms=3_000)
    with refuses(r"lawful retention: t-0: 1 begins at 4, the batch at 2 is 1\d\d\d ms old"):
        Scene(world, image(retention_ms="2000")).rises(4, at_ms=2_900)


def test_by_size_goes_what_has_enough_behind_it(world: World) -> None:
    Scene(world, image(retention_bytes=str(4 * BATCH_BYTES))).rises(4, at_ms=0)
    with refuses("lawful retention"):
        Scene(world, image(retention_bytes=str(4 * BATCH_BYTES + 1))).rises(4, at_ms=0)
    with refuses("lawful retention: t-0: 1 begins at 6, the batch at 4"):
        Scene(world, image(retention_bytes=str(4 * BATCH_BYTES))).rises(6, at_ms=0)


def test_without_a_limit_nothing_goes(world: World) -> None:
    with refuses("lawful retention"):
        Scene(world, image()).rises(2, at_ms=1_000_000)


def test_what_an_operator_had_deleted_goes_and_nothing_above() -> None:
    with World(1) as world:
        scene = Scene(world, image())
        scene.judge.on(RecordsDeleted(NAME, 3))
        scene.rises(3, at_ms=0)
        with refuses("lawful retention: t-0: 1 begins at 6, the batch at 4"):
            scene.rises(6, at_ms=0, before=3)


def test_batches_of_another_lineage_do_not_count(world: World) -> None:
    scene = Scene(world, image(retention_bytes=str(4 * BATCH_BYTES + 1)))
    world.store.put(scene.key(12), batch(12, epoch=3))
    with refuses("lawful retention"):
        scene.rises(4, at_ms=0)


def test_a_clock_that_was_ahead_a_moment_ago_may_have_decided(world: World) -> None:
    scene = Scene(world, image(retention_ms="60000"))
    scene.clock.jump(86_400_000)
    scene.faults_change(at_s=1.0)
    scene.clock.jump(-86_400_000)
    scene.faults_change(at_s=2.0)
    scene.rises(4, at_ms=3_000)
    with refuses("lawful retention"):
        scene.rises(8, at_ms=3_000 + int(DECIDED_S * 1000), before=4)


def test_what_a_topic_wanted_a_moment_ago_may_have_decided(world: World) -> None:
    before, now = image(retention_ms="1000"), image(retention_ms="-1")
    scene = Scene(world, now)
    scene.judge.on(MetadataChanged(CommittedBatch(0, 0, 0, 0, ()), MetadataImage(), before, now))
    scene.rises(4, at_ms=3_000)
    with refuses("lawful retention"):
        scene.rises(8, at_ms=int(DECIDED_S * 1000) + 5_000, before=4)


def test_others_start_where_a_leader_did(world: World) -> None:
    scene = Scene(world, image(retention_ms="0"))
    scene.rises(4, at_ms=3_000)
    scene.starts(status(0, node_id=2, leads=False), status(4, node_id=2, leads=False))
    for before, now in (
        (status(4, node_id=2, leads=False), status(6, node_id=2, leads=False)),
        (None, status(6, node_id=2)),
    ):
        with refuses("leader's log start: t-0: that of 2 is 6, leaders had 4"):
            scene.starts(before, now)


@pytest.mark.parametrize(("starts", "is_first"), [((4, 4), True), ((0, 4), False), ((4, 0), False)])
def test_no_object_goes_that_a_member_of_the_isr_counts_for_its_log(
    world: World, starts: tuple[int, int], is_first: bool
) -> None:
    scene = Scene(world, image())
    for node_id, start in enumerate(starts, 1):
        scene.observer._statuses[node_id, NAME] = status(start, node_id=node_id)
    world.store.remove(scene.key(0))
    if is_first:
        scene.judges.check()
    else:
        with refuses("log start first: .* offset 0 is in no object"):
            scene.judges.check()


def test_what_a_member_has_locally_may_go(world: World) -> None:
    scene = Scene(world, image())
    scene.observer._statuses[1, NAME] = status(0, local_start=0)
    world.store.remove(scene.key(0))
    scene.judges.check()


@pytest.mark.parametrize(
    ("configs", "at_ms", "late"),
    [
        ({"retention_ms": "1000"}, LATE_MS + 1_000, True),
        ({"retention_ms": "1000"}, LATE_MS + 900, False),
        ({"retention_bytes": str(5 * BATCH_BYTES)}, 0, True),
        ({"retention_bytes": str(5 * BATCH_BYTES + 1)}, 0, False),
        ({"retention_bytes": str(5 * BATCH_BYTES), "internal_segment_bytes": "1"}, 0, False),
        ({}, 10**9, False),
    ],
)
def test_what_should_have_gone_by_now_is_told(world: World, configs: dict[str, str], at_ms: int, *, late: bool) -> None:
    scene = Scene(world, image(**configs))
    scene.observer._statuses[1, NAME] = status(0)
    world.loop.now_s = at_ms / 1000
    assert [name for name, _ in scene.judge.behind()] == ["t-0"] * late


@pytest.mark.parametrize("now", [None, status(0, leads=False)], ids=["is down", "does not lead yet"])
def test_where_nobody_leads_what_should_have_gone_is_asked_again(world: World, now: ReplicaStatus | None) -> None:
    scene = Scene(world, image(retention_ms="1000"))
    if now is not None:
        scene.observer._statuses[1, NAME] = now
    assert scene.judge.behind() == [("t-0", "nobody leads epoch 0")]


def state_log(*records: tuple[bytes, bytes | None]) -> bytes:
    """Batches of one record each, from offset 0."""
    return b"".join(
        build_batch([Record(offset, EPOCH_MS, key, value)], base_offset=offset, partition_leader_epoch=0)
        for offset, (key, value) in enumerate(records)
    )


SNAPSHOT, UPDATE = b"\0\0", b"\0\1"


@pytest.mark.parametrize(
    ("records", "needed"),
    [
        ([(SNAPSHOT + b"a", b"1"), (UPDATE + b"a", b"2"), (SNAPSHOT + b"b", b"3"), (UPDATE + b"a", b"4")], 0),
        ([(SNAPSHOT + b"a", b"1"), (SNAPSHOT + b"b", b"2"), (SNAPSHOT + b"a", b"3")], 1),
        ([(SNAPSHOT + b"a", b"1"), (SNAPSHOT + b"b", b"2"), (SNAPSHOT + b"a", None)], 1),
        ([(SNAPSHOT + b"a", b"1")] * 12 + [(SNAPSHOT + b"a", b"not committed yet")], 11),
    ],
)
def test_of_each_share_partition_the_newest_snapshot_stays(
    world: World, monkeypatch: pytest.MonkeyPatch, records: list[tuple[bytes, bytes | None]], needed: int
) -> None:
    monkeypatch.setattr(retention, "SHARE_GROUP_STATE_TOPIC", "t")
    scene = Scene(world, image())
    _, files = scene.judge._hosts[1]
    for base in (0, 4):
        world.store.objects.pop(scene.key(base))
    files.replace(DIRECTORY / "t-0" / f"{8:020}.log", state_log(*records), sync=True)
    scene.rises(needed, at_ms=0)
    with refuses("needed state: t-0: 1 begins at"):
        scene.rises(needed + 1, at_ms=0)
