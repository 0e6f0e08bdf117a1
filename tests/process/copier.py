"""A process that copies one partition to another topic, exactly once: `copier SERVERS SOURCE TARGET PARTITION`.

It consumes, transforms and produces for ever, a transaction each; SIGTERM ends it after the one under way. Its
transactional id is of the partition: whichever process comes after it fences it, and continues where it committed.
"""

from __future__ import annotations

import asyncio
import signal
import sys

import aiokafka
import aiokafka.errors

from tierfetch.tests.process import connecting

BATCH = 20


async def copy_for_ever(servers: str, source: str, target: str, partition: int) -> None:
    """Return at SIGTERM. What fails is done again, by a new producer where the one before may not go on."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    place = aiokafka.TopicPartition(source, partition)
    group = f"copy-{partition}"
    consumer = aiokafka.AIOKafkaConsumer(
        **connecting.kafka_python(servers),
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    await consumer.start()
    consumer.assign([place])
    while not stopping.is_set():
        producer = aiokafka.AIOKafkaProducer(**connecting.kafka_python(servers), transactional_id=group)
        try:
            await producer.start()
            while not stopping.is_set():
                messages = await consumer.getmany(place, timeout_ms=200, max_records=BATCH)
                if not messages:
                    continue
                position = messages[place][-1].offset + 1
                async with producer.transaction():
                    for message in messages[place]:
                        await producer.send(target, message.value, partition=partition)
                    await producer.send_offsets_to_transaction({place: position}, group)
        except aiokafka.errors.KafkaError as error:
            print(f"again, after {error!r}", file=sys.stderr, flush=True)  # noqa: T201 - for the test's report
            await consumer.seek_to_committed(place)
        finally:
            await producer.stop()
    await consumer.stop()


if __name__ == "__main__":
    asyncio.run(copy_for_ever(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
