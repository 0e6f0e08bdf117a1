"""Formatting, and whose directory it is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tierfetch.log.core import MetaProperties, decode_meta_properties
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.quorum.core.errors import QuorumStartError
from tierfetch.quorum.core.state import Endpoint, ReplicaKey
from tierfetch.quorum.core.voters import VoterNode, VoterSet
from tierfetch.quorum.storage.bootstrap_file import BOOTSTRAP_FILE, read_bootstrap, write_bootstrap
from tierfetch.quorum.storage.formatting import FormatOrder, FormatResult, format_directories, identify
from tierfetch.quorum.storage.snapshot_file import parse_snapshot
from tierfetch.tests.fakes.disk import DiskCrash, MemoryDisk, failures
from tierfetch.tests.quorum.test_snapshot_file import FORMATTED, VOTERS

CLUSTER = "asNLmUt5R6KXNd2eIjy-lA"
A, B = Path("/data/a"), Path("/data/b")
KEY = ReplicaKey(1, VOTERS.voters[0].directory_id)
FIRST = VoterSet.of([VoterNode(KEY, (Endpoint("CONTROLLER", "127.0.0.1", 19391),))])


async def format_(disk: MemoryDisk, order: FormatOrder, *, ignore: bool = False) -> FormatResult:
    return await format_directories(
        disk, order, ignore_formatted=ignore, rng=random.Random(1), now_ms=lambda: 1_700_000_000_000
    )


async def test_Q11_every_directory_gets_an_id_of_its_own() -> None:
    disk = MemoryDisk()
    result = await format_(disk, FormatOrder(CLUSTER, KEY, [A, B]))
    assert result == FormatResult((A, B), ())
    files = disk.restart("lost").files()
    first, second = (decode_meta_properties(files[path / "meta.properties"]) for path in (A, B))
    assert first == MetaProperties(CLUSTER, 1, KEY.directory_id)
    assert (second.cluster_id, second.node_id) == (CLUSTER, 1)
    assert second.directory_id not in (None, KEY.directory_id)
    assert [path for path in files if "checkpoint" in path.name] == []


async def test_Q11_the_first_voters_are_what_kafka_writes() -> None:
    disk = MemoryDisk()
    await format_(disk, FormatOrder(CLUSTER, KEY, [A], FIRST))
    written = disk.restart("lost").files()[A / "__cluster_metadata-0" / f"{0:020d}-{0:010d}.checkpoint"]
    assert parse_snapshot(written, name="ours").setup == parse_snapshot(FORMATTED, name="theirs").setup
    assert len(written) == len(FORMATTED)


async def test_Q11_a_formatted_directory_is_left_alone() -> None:
    disk = MemoryDisk()
    await format_(disk, FormatOrder(CLUSTER, KEY, [A]))
    before = disk.files()
    with pytest.raises(QuorumStartError, match=r"already formatted\. Use --ignore-formatted"):
        await format_(disk, FormatOrder(CLUSTER, KEY, [A, B]))
    assert disk.files() == before
    assert await format_(disk, FormatOrder(CLUSTER, KEY, [A, B]), ignore=True) == FormatResult((B,), (A,))
    assert disk.files()[A / "meta.properties"] == before[A / "meta.properties"]


async def test_Q11_a_directory_of_another_cluster_or_node_is_never_skipped() -> None:
    disk = MemoryDisk()
    await format_(disk, FormatOrder(CLUSTER, KEY, [A]))
    for order in (FormatOrder("AAAAAAAAAAAAAAAAAAAAAQ", KEY, [A]), FormatOrder(CLUSTER, ReplicaKey(2), [A])):
        with pytest.raises(KafkaError, match="belongs to"):
            await format_(disk, order, ignore=True)


async def test_Q11_a_crash_leaves_a_directory_formatted_whole_or_not_at_all() -> None:
    for fault in failures(crash=True):
        disk = MemoryDisk(fault)
        try:
            await format_(disk, FormatOrder(CLUSTER, KEY, [A], FIRST))
            done = True
        except DiskCrash:
            done = False
        after = disk.restart("lost")
        if A / "meta.properties" in after.files():
            assert A / "__cluster_metadata-0" / f"{0:020d}-{0:010d}.checkpoint" in after.files()
        else:
            assert not done
            await format_(after, FormatOrder(CLUSTER, KEY, [A], FIRST))
        if done:
            break


async def test_Q11_directories_exchanged_between_nodes_are_found_out() -> None:
    disk = MemoryDisk()
    await format_(disk, FormatOrder(CLUSTER, KEY, [A]))
    assert (await identify(disk, A, 1, CLUSTER)).directory_id == KEY.directory_id
    assert (await identify(disk, A, 1, None)).cluster_id == CLUSTER
    with pytest.raises(KafkaError, match=r"belongs to node 1, this is node 2.*must not be exchanged") as caught:
        await identify(disk, A, 2, CLUSTER)
    assert caught.value.code is ErrorCode.inconsistent_cluster_id
    with pytest.raises(KafkaError, match="belongs to cluster"):
        await identify(disk, A, 1, "AAAAAAAAAAAAAAAAAAAAAQ")
    with pytest.raises(QuorumStartError, match="format the directory first"):
        await identify(disk, B, 1, CLUSTER)


async def test_Q11_a_damaged_file_of_first_records_is_a_start_that_fails_with_what_to_do() -> None:
    disk = MemoryDisk()
    assert await read_bootstrap(disk, A) == ()
    await write_bootstrap(disk, A, [b"first", b"second"], 1_700_000_000_000)
    assert await read_bootstrap(disk, A) == (b"first", b"second")
    written = bytearray(disk.files()[A / BOOTSTRAP_FILE])
    written[-1] ^= 1
    await disk.write_file(A / BOOTSTRAP_FILE, bytes(written))
    with pytest.raises(QuorumStartError, match=r"bootstrap\.checkpoint: CRC-32C .*: put the bootstrap\.checkpoint of"):
        await read_bootstrap(disk, A)
