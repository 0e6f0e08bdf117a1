"""Where the logs of replicas are on machines with several log directories."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import ClusterImage, PartitionRegistration, TopicImage
from tierfetch.log.core import META_PROPERTIES, MetaProperties, encode_meta_properties
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.sim.judges.directory_moves import LogPlaces
from tierfetch.sim.judges.durability import DurableLogs
from tierfetch.sim.machine.filesystem import LOG_DIRECTORIES, SimFilesystem

FIRST, SECOND = LOG_DIRECTORIES
IDS = {FIRST: UUID(int=7), SECOND: UUID(int=8)}
NAME = TopicIdPartition(UUID(int=1), "t", 0)
FUTURE = "t-0." + "0" * 32 + "-future"


class Machine:
    """Broker 1 is down; the cluster has its replica in the second directory."""

    def __init__(self) -> None:
        self.files = SimFilesystem()
        for directory, number in IDS.items():
            self.files.make_directory(directory)
            properties = MetaProperties(cluster_id="c", node_id=1, directory_id=number)
            self.write(
                directory / META_PROPERTIES,
                encode_meta_properties(properties, written_at=datetime(2026, 1, 1, tzinfo=UTC)),
            )
        registration = PartitionRegistration(1, 3, 5, (1,), (1,), directories=(IDS[SECOND],))
        image = ClusterImage("c", {}, {"t": TopicImage("t", NAME.topic_id, {}, {0: registration})}, {})
        disks = DurableLogs(lambda _: self.files)
        self.places = LogPlaces({1: "a"}, lambda _: self.files, lambda: {1: None}, lambda: image, disks)

    def write(self, path: Path, data: bytes) -> None:
        self.files.replace(path, data, sync=True)

    def log(self, directory: Path, name: str, records: int) -> Machine:
        self.files.make_directory(directory / name)
        batches = [build_batch([Record(number, 0, None, b"v")], base_offset=number) for number in range(records)]
        self.write(directory / name / "00000000000000000000.log", b"".join(batches))
        return self


def test_D4_the_log_is_where_the_next_start_looks_for_it() -> None:
    assert Machine().places.log_of(1, NAME) == FIRST / "t-0", "where it would be"
    assert Machine().log(FIRST, "t-0", 3).places.log_of(1, NAME) == FIRST / "t-0"
    both = Machine().log(FIRST, "t-0", 3).log(SECOND, FUTURE, 2)
    assert both.places.log_of(1, NAME) == SECOND / FUTURE, "the cluster counts on it: it becomes the log"
    both.log(SECOND, "t-0", 3)
    assert both.places.log_of(1, NAME) == SECOND / "t-0"


@pytest.mark.parametrize(("directory", "is_lost"), [(FIRST, False), (SECOND, True)])
def test_D4_a_replica_is_lost_with_the_directory_that_the_cluster_has_it_in(directory: Path, is_lost: bool) -> None:
    machine = Machine().log(SECOND, "t-0", 3)
    assert machine.places.is_in(1, directory, NAME) is is_lost
