"""Records of share groups (KIP-932), and what ranges of delivery states say together: Kafka's own classes and ours."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from tierfetch.broker.groups.core.records import GroupRecord
from tierfetch.broker.groups.core.share.records import ShareGroupKey
from tierfetch.broker.share_state.core.batches import ACKNOWLEDGED, ARCHIVED, AVAILABLE, Batch, combined
from tierfetch.broker.share_state.core.records import ShareRecord
from tierfetch.broker.share_state.core.state import deleted
from tierfetch.tests.broker.groups.test_share_group import VALUES
from tierfetch.tests.broker.share_state.test_records import KEY, SNAPSHOT, UPDATE
from tierfetch.tests.interop.java import run_jshell

pytestmark = pytest.mark.usefixtures("jshell")

SERDES = {
    "org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde": [
        ShareRecord(KEY, SNAPSHOT).encoded(),
        ShareRecord(KEY, UPDATE).encoded(),
        ShareRecord(KEY, None).encoded(),
        ShareRecord(KEY, deleted(None, 7, 1_000)).encoded(),
    ],
    "org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde": [
        GroupRecord(ShareGroupKey(kind, "g", name), value).encoded() for kind, name, value, _, _ in VALUES
    ],
}


@pytest.mark.parametrize("serde", SERDES)
def test_java_reads_ours_and_writes_the_same(serde: str) -> None:
    records = SERDES[serde]
    listed = ", ".join(f'"{key.hex()}", "{"" if value is None else value.hex()}"' for key, value in records)
    printed = run_jshell(
        f"""
        var serde = new {serde}();
        var hex = HexFormat.of();
        var listed = List.of({listed});
        for (int i = 0; i < listed.size(); i += 2) {{
            var value = listed.get(i + 1).isEmpty() ? null : ByteBuffer.wrap(hex.parseHex(listed.get(i + 1)));
            var read = serde.deserialize(ByteBuffer.wrap(hex.parseHex(listed.get(i))), value);
            System.out.println(hex.formatHex(serde.serializeKey(read)));
            System.out.println(value == null ? "" : hex.formatHex(serde.serializeValue(read)));
        }}
        """
    )
    assert printed == [text for key, value in records for text in (key.hex(), (value or b"").hex())]


def offsets(batches: Iterable[Batch]) -> dict[int, tuple[int, int]]:
    """Say it offset by offset: Kafka leaves some neighbours apart that say the same."""
    return {offset: each.rank for each in batches for offset in range(each.first_offset, each.last_offset + 1)}


def written(batches: Iterable[Batch]) -> str:
    return ":".join(f"{b.first_offset},{b.last_offset},{b.delivery_state},{b.delivery_count}" for b in batches)


def read(text: str) -> list[Batch]:
    return [Batch(*map(int, each.split(","))) for each in text.split(":") if each]


def test_ranges_say_together_what_they_say_to_kafka() -> None:
    rng = random.Random(1)
    cases = []
    for _ in range(200):
        batches = []
        for _ in range(rng.randint(0, 6)):
            first = rng.randint(0, 15)
            state = rng.choice([AVAILABLE, ACKNOWLEDGED, ARCHIVED])
            batches.append(Batch(first, first + rng.randint(0, 6), state, rng.randint(1, 3)))
        cases.append((batches, rng.randint(-1, 18)))
    text = ";".join(f"{start}:{written(batches)}" for batches, start in cases)
    printed = run_jshell(
        f"""
        import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
        import org.apache.kafka.server.share.persister.PersisterStateBatch;
        for (var line : "{text}".split(";")) {{
            var parts = line.split(":");
            var batches = new ArrayList<PersisterStateBatch>();
            for (int i = 1; i < parts.length; i++) {{
                var n = parts[i].split(",");
                batches.add(new PersisterStateBatch(Long.parseLong(n[0]), Long.parseLong(n[1]), Byte.parseByte(n[2]),
                    Short.parseShort(n[3])));
            }}
            var told = new StringJoiner(":");
            var combiner = new PersisterStateBatchCombiner(List.of(), batches, Long.parseLong(parts[0]));
            for (var b : combiner.combineStateBatches())
                told.add(b.firstOffset() + "," + b.lastOffset() + "," + b.deliveryState() + "," + b.deliveryCount());
            System.out.println("=" + told);
        }}
        """
    )
    ours = [offsets(combined(batches, start)) for batches, start in cases]
    assert ours == [offsets(read(line[1:])) for line in printed]
