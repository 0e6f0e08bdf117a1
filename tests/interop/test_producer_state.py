"""Kafka's own `ProducerStateManager` beside ours, over the same long random history of batches and markers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from tierfetch.log.core import ProducerStateManager, decode_snapshot
from tierfetch.log.core.producers import AppendOrigin
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records import BatchHeader, Record, build_batch, parse_header
from tierfetch.protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from tierfetch.tests.interop.java import run_jshell

OPERATIONS = 4_000
SEQUENCE_MAX = 2**31 - 1

JUDGE = """
import java.util.*;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.*;
var directory = Path.of("%s");
var config = new ProducerStateManagerConfig(86400000, false);
var state = new ProducerStateManager(new TopicPartition("t", 0), directory.toFile(), 300000, config, Time.SYSTEM);

var find = ProducerStateEntry.class.getDeclaredMethod("findDuplicateBatch", RecordBatch.class);
find.setAccessible(true);
Optional<BatchMetadata> duplicate(ProducerStateEntry entry, RecordBatch batch) {
    try {
        return (Optional<BatchMetadata>) find.invoke(entry, batch);
    } catch (ReflectiveOperationException error) {
        throw new IllegalStateException(error);
    }
}

String append(RecordBatch batch, AppendOrigin origin, short transactionVersion) {
    if (origin == AppendOrigin.CLIENT) {
        var duplicate = state.lastEntry(batch.producerId()).flatMap(entry -> duplicate(entry, batch));
        if (duplicate.isPresent()) return "duplicate of " + duplicate.get().firstOffset();
    }
    try {
        var info = state.prepareUpdate(batch.producerId(), origin);
        var start = batch.isTransactional() && !batch.isControlBatch()
            ? Optional.of(new LogOffsetMetadata(batch.baseOffset(), 0, 0)) : Optional.<LogOffsetMetadata>empty();
        var completed = info.append(batch, start, transactionVersion);
        state.update(info);
        state.updateMapEndOffset(batch.nextOffset());
        if (completed.isEmpty()) return "taken";
        var ended = completed.get();
        var stable = state.lastStableOffset(ended);
        state.completeTxn(ended);
        return "ended " + ended.firstOffset() + " " + ended.lastOffset() + " " + stable + " " + ended.isAborted();
    } catch (Exception error) {
        return error.getClass().getSimpleName();
    }
}

for (var line : Files.readAllLines(directory.resolve("history"))) {
    var words = line.split(" ");
    var result = "";
    if (words[0].equals("high-watermark")) {
        state.onHighWatermarkUpdated(Long.parseLong(words[1]));
    } else {
        var bytes = ByteBuffer.wrap(HexFormat.of().parseHex(words[2]));
        var batch = MemoryRecords.readableRecords(bytes).batches().iterator().next();
        result = append(batch, AppendOrigin.valueOf(words[0]), Short.parseShort(words[1]));
    }
    var unstable = state.firstUnstableOffset().map(first -> first.messageOffset).orElse(-1L);
    System.out.println(result + " | " + unstable);
}
state.takeSnapshot();
"""

EXCEPTIONS = {
    ErrorCode.out_of_order_sequence_number: "OutOfOrderSequenceException",
    ErrorCode.invalid_producer_epoch: "InvalidProducerEpochException",
    ErrorCode.invalid_txn_state: "InvalidTxnStateException",
    ErrorCode.transaction_coordinator_fenced: "TransactionCoordinatorFencedException",
}


@dataclass(slots=True)
class History:
    """Our side, which also writes down what the judge is to be given."""

    random: Random
    state: ProducerStateManager = field(default_factory=ProducerStateManager)
    lines: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    def step(self) -> None:
        if self.random.random() < 0.05:
            offset = self.random.randint(max(0, self.state.map_end_offset - 50), self.state.map_end_offset)
            self.lines.append(f"high-watermark {offset}")
            self.state.on_high_watermark(offset)
            self._note("")
        elif self.random.random() < 0.25:
            self._append_marker()
        else:
            self._append_data()

    def _producer(self) -> tuple[int, int]:
        """Mostly at the epoch that is known."""
        producer_id = self.random.randint(1, 4)
        known = self.state.entries.get(producer_id)
        epoch = known.producer_epoch if known else 0
        return producer_id, max(0, epoch + self.random.choice((-1, 0, 0, 0, 0, 0, 0, 0, 0, 1)))

    def _append_marker(self) -> None:
        producer_id, epoch = self._producer()
        known = self.state.entries.get(producer_id)
        coordinator_epoch = max(0, (known.coordinator_epoch if known else 0) + self.random.choice((-1, 0, 0, 0, 1)))
        marker = EndTransactionMarker(self.random.choice((ControlType.ABORT, ControlType.COMMIT)), coordinator_epoch)
        batch = build_end_transaction_batch(
            marker,
            base_offset=self.state.map_end_offset,
            timestamp_ms=len(self.lines),
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        origin = self.random.choice((AppendOrigin.COORDINATOR, AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION))
        self._append(batch, origin, marker, self.random.choice((0, 1, 2)))

    def _append_data(self) -> None:
        producer_id, epoch = self._producer()
        known = self.state.entries.get(producer_id)
        count = self.random.randint(1, 4)
        sequence = self.random.choice((0, 1, SEQUENCE_MAX - 3))
        is_transactional = self.random.random() < 0.5
        if known is not None and self.random.random() < 0.9:
            sequence = (known.last_sequence + 1) % (SEQUENCE_MAX + 1) if epoch == known.producer_epoch else 0
            is_transactional = known.current_txn_first_offset is not None or self.random.random() < 0.4
            if known.batches and self.random.random() < 0.15:
                old = self.random.choice(known.batches)
                sequence, count = old.first_sequence, old.offset_delta + self.random.choice((1, 1, 2))
        offset = self.state.map_end_offset
        batch = build_batch(
            [Record(offset + number, len(self.lines)) for number in range(count)],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        origin = self.random.choice((*[AppendOrigin.CLIENT] * 5, AppendOrigin.COORDINATOR))
        self._append(batch, origin, None, 0)

    def _append(
        self, batch: bytes, origin: AppendOrigin, marker: EndTransactionMarker | None, transaction_version: int
    ) -> None:
        self.lines.append(f"{origin.name} {transaction_version} {batch.hex()}")
        self._note(self._judge(parse_header(batch), origin, marker, transaction_version))

    def _judge(
        self, header: BatchHeader, origin: AppendOrigin, marker: EndTransactionMarker | None, transaction_version: int
    ) -> str:
        try:
            duplicate = self.state.check(header, origin, marker=marker, transaction_version=transaction_version)
        except KafkaError as error:
            return EXCEPTIONS[error.code]
        if duplicate is not None:
            return f"duplicate of {duplicate.first_offset}"
        ended = self.state.apply(header, marker=marker)
        if ended is None:
            return "taken"
        offsets = f"{ended.first_offset} {ended.last_offset} {ended.last_stable_offset}"
        return f"ended {offsets} {str(ended.is_aborted).lower()}"

    def _note(self, result: str) -> None:
        unstable = self.state.first_unstable_offset
        self.results.append(f"{result} | {-1 if unstable is None else unstable}")


@pytest.mark.usefixtures("jshell")
@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_history_gives_the_same_answers_and_snapshot(tmp_path: Path, seed: int) -> None:
    history = History(Random(seed))
    for _ in range(OPERATIONS):
        history.step()
    (tmp_path / "history").write_text("".join(f"{line}\n" for line in history.lines))
    printed = run_jshell(JUDGE % tmp_path)
    for number, (ours, theirs) in enumerate(zip(history.results, printed, strict=True)):
        assert ours == theirs, (number, history.lines[max(0, number - 3) : number + 1])
    kinds = Counter(result.split()[0] for result in printed)
    assert {*EXCEPTIONS.values(), "taken", "duplicate", "ended"} <= kinds.keys()
    (snapshot,) = tmp_path.glob("*.snapshot")
    assert int(snapshot.stem) == history.state.map_end_offset
    theirs_at_end = sorted(decode_snapshot(snapshot.read_bytes()))
    assert theirs_at_end == sorted(decode_snapshot(history.state.snapshot()))
