"""What a scrape says of share groups."""

from __future__ import annotations

from pathlib import Path

from tierfetch.broker.kafka_names import with_kafka_names
from tierfetch.tests.broker.hosting import Host, append, batch
from tierfetch.tests.broker.share.consuming import ACCEPT, REJECT, Member, Scene

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"


async def test_what_is_under_way_and_what_was_said_is_reported(host: Host) -> None:
    scene = Scene(host)
    partition = await host.topic("t", 1)
    await append(partition, batch(b"a", b"b", b"c", b"d"))
    member = Member(scene, "m", partition.partition.topic_id)
    await member.fetch(max_wait_ms=600_000)
    await member.acknowledge((0, 1, [ACCEPT, REJECT]))
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in with_kafka_names(scene.groups.metrics())
        for sample in family.samples
    }
    expected = {
        ("kafka_server_sharesessioncache_sharesessionscount",): 1,
        ("kafka_server_sharesessioncache_sharepartitionscount",): 1,
        ("kafka_server_sharepartitionmetrics_inflightmessagecount",): 2,
        ("kafka_server_sharepartitionmetrics_inflightbatchcount",): 1,
        ("kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total",): 0,
        ("kafka_server_sharegroupmetrics_recordacknowledgements_total", "accept"): 1,
        ("kafka_server_sharegroupmetrics_recordacknowledgements_total", "reject"): 1,
        ("tierfetch_share_partitions",): 1,
        ("tierfetch_share_acquired_records_total",): 4,
        ("tierfetch_share_partition_load_seconds_count",): 1,
    }
    assert {name: samples[name] for name in expected} == expected


async def test_every_family_is_documented(host: Host) -> None:
    documented = DOCUMENT.read_text(encoding="utf-8")
    assert [family.name for family in Scene(host).groups.metrics() if f"`{family.name}" not in documented] == []
