"""The commands of the transcripts in `testdata`: a leader, a tier and a follower under the real fetcher.

leader end=8 epochs=0@0,1@3 [start=0] [local-start=0] [hw=END] [lso=HW]     a leader under its latest epoch
tier 0-2 3-5                                 copy these segments of the leader's log (both ends inclusive)
ledger unread | read                         whether the leader has read the remote log metadata
metadata behind | caught-up                  the follower's remote log metadata
list-offset -6 [version=11] [reader=follower|uncommitted|committed]
fetch 6 [last-epoch=2] [leader-epoch=3] [reader=...]
end-of-epoch 1                               OffsetForLeaderEpoch
leader-version 10                            the newest ListOffsets that the leader speaks
follower [end=0] [epochs=...] [start=0] [local-start=0] [policy=tier-first]
             [option=on|off] [feature=on|off] [tiered=yes|no]
append 5 [epoch=3]                           the leader appends so many records
lead epoch=4                                 the leader begins a new epoch
become-leader epoch=4                        the follower leads, the leader follows: they change places
crash follower|leader keeps=1                it loses what lies at or above this offset
run [until=caught-up|backoff]                print what goes on until then
log                                          the follower's log
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from tierfetch.fetcher.core.epoch_fetch import (
    DivergingEpoch,
    FetchIsolation,
    FetchPosition,
    ReadRemote,
    Refuse,
    Serve,
    ServeEmpty,
    end_offset_for_leader_epoch,
    validate_fetch,
)
from tierfetch.fetcher.core.leader_offsets import special_offset
from tierfetch.fetcher.core.partition_fetch import FetchedPartition, FetchLimits, PartitionToFetch
from tierfetch.fetcher.policy_registry import load_bootstrap_policy
from tierfetch.fetcher.ports import Arrived, Begins, pass_over
from tierfetch.log.core import EpochEnd
from tierfetch.protocol.errors import KafkaError
from tierfetch.protocol.records import iter_batches
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote.core import OffsetAndEpoch, RemoteLogSegmentId
from tierfetch.tests.fetcher.cluster import QUICK, Cluster, until
from tierfetch.tests.fetcher.model_follower import ModelFollower
from tierfetch.tests.fetcher.model_log import ModelLog, model_log
from tierfetch.tests.fetcher.stub_leader import FOLLOWER_ID, StubLeader

NEVER_RETRIES = replace(QUICK, backoff_ms=3_600_000, backoff_max_ms=3_600_000)

READERS = {
    "follower": FetchIsolation.LOG_END,
    "uncommitted": FetchIsolation.HIGH_WATERMARK,
    "committed": FetchIsolation.TXN_COMMITTED,
}


class Transcript:
    """One file's state. Each command is a method that returns what is printed."""

    def __init__(self) -> None:
        self.trace: list[str] = []
        self.cluster = Cluster(ModelLog())
        self.tracing()

    async def run(self, words: list[str], options: dict[str, str]) -> str:
        command = getattr(self, f"do_{words[0].replace('-', '_')}")
        printed = command(words[1:], options)
        return printed if isinstance(printed, str) else await printed

    # --- the leader and the tier ------------------------------------------------------------------------------------

    def do_leader(self, words: list[str], options: dict[str, str]) -> str:
        log = log_of(options)
        log.high_watermark = int(options.get("hw", log.log_end_offset))
        log.last_stable_offset = int(options["lso"]) if "lso" in options else None
        self.cluster = Cluster(log)
        self.tracing()
        return describe(log)

    def do_tier(self, words: list[str], options: dict[str, str]) -> str:
        printed = []
        for word in words:
            start, end = word.split("-")
            metadata = self.cluster.tier.upload(self.cluster.log, int(start), int(end))
            epochs = " ".join(f"{entry.epoch}@{entry.start_offset}" for entry in metadata.segment_leader_epochs)
            printed.append(f"segment {start}-{end}, epochs {epochs}")
        return "\n".join(printed)

    def do_ledger(self, words: list[str], options: dict[str, str]) -> str:
        self.cluster.is_ledger_read = words == ["read"]
        return "ok"

    def do_metadata(self, words: list[str], options: dict[str, str]) -> str:
        if words == ["behind"]:
            self.cluster.tier.metadata.hold()
        else:
            self.cluster.tier.metadata.release()
        return "ok"

    def do_append(self, words: list[str], options: dict[str, str]) -> str:
        log = self.cluster.log
        log.append(int(options.get("epoch", log.leader_epoch)), int(words[0]))
        log.high_watermark = log.log_end_offset
        return describe(log)

    def do_lead(self, words: list[str], options: dict[str, str]) -> str:
        self.cluster.log.lead(int(options["epoch"]))
        self.cluster.follower.leader_epoch = int(options["epoch"])
        return describe(self.cluster.log)

    def do_become_leader(self, words: list[str], options: dict[str, str]) -> str:
        old_leader, new_leader = self.cluster.log, self.cluster.follower.log
        new_leader.lead(int(options["epoch"]))
        settings = self.cluster.settings
        self.cluster = Cluster(new_leader)
        self.cluster.settings = settings
        self.cluster.follower = ModelFollower(log=old_leader, leader_epoch=new_leader.leader_epoch)
        self.cluster.follower.is_tiered = False
        self.tracing()
        return f"leader:   {describe(new_leader)}\nfollower: {describe(old_leader)}"

    def do_crash(self, words: list[str], options: dict[str, str]) -> str:
        log = self.cluster.log if words == ["leader"] else self.cluster.follower.log
        log.truncate_to(int(options["keeps"]))
        return describe(log)

    def do_list_offset(self, words: list[str], options: dict[str, str]) -> str:
        cluster = self.cluster
        answer = special_offset(
            cluster.log.view(),
            cluster.tier.ledger() if cluster.is_ledger_read else None,
            int(words[0]),
            READERS[options.get("reader", "follower")],
            int(options.get("version", "11")),
        )
        return refusal(answer) if isinstance(answer, Refuse) else text_of(answer)

    def do_leader_version(self, words: list[str], options: dict[str, str]) -> str:
        self.cluster.leader.version = int(words[0])
        return "ok"

    def do_fetch(self, words: list[str], options: dict[str, str]) -> str:
        reader = options.get("reader", "follower")
        position = FetchPosition(
            fetch_offset=int(words[0]),
            last_fetched_epoch=int(options.get("last-epoch", "-1")),
            current_leader_epoch=int(options.get("leader-epoch", "-1")),
            replica_id=FOLLOWER_ID if reader == "follower" else -1,
            isolation=READERS[reader],
        )
        match validate_fetch(self.cluster.log.view(), position):
            case Serve(max_offset):
                return f"serve up to {max_offset}"
            case ServeEmpty():
                return "serve nothing yet"
            case ReadRemote(max_offset):
                return f"read the tier up to {max_offset}"
            case DivergingEpoch(epoch, end_offset):
                return f"diverging: epoch {epoch} ends at {end_offset}"
            case Refuse() as refused:
                return refusal(refused)

    def do_end_of_epoch(self, words: list[str], options: dict[str, str]) -> str:
        answer = end_offset_for_leader_epoch(self.cluster.log.view(), -1, int(words[0]))
        return refusal(answer) if isinstance(answer, Refuse) else f"epoch {answer.epoch} ends at {answer.end_offset}"

    # --- the follower -----------------------------------------------------------------------------------------------

    def do_follower(self, words: list[str], options: dict[str, str]) -> str:
        cluster = self.cluster
        log = log_of(options) if "end" in options else ModelLog()
        log.high_watermark = int(options.get("hw", log.high_watermark))
        cluster.follower = ModelFollower(log=log, leader_epoch=cluster.log.leader_epoch)
        cluster.follower.is_tiered = options.get("tiered", "yes") == "yes"
        cluster.change_settings(
            policy=load_bootstrap_policy(options.get("policy", "tier-first"), {}),
            is_option_enabled=options.get("option", "on") == "on",
            is_feature_supported=options.get("feature", "on") == "on",
        )
        self.tracing()
        return describe(log)

    def do_log(self, words: list[str], options: dict[str, str]) -> str:
        return describe(self.cluster.follower.log)

    async def do_run(self, words: list[str], options: dict[str, str]) -> str:
        cluster = self.cluster
        is_to_back_off = options.get("until") == "backoff"
        cluster.config = NEVER_RETRIES if is_to_back_off else QUICK
        self.trace.clear()
        async with cluster.running():
            if is_to_back_off:
                await until(lambda: cluster.state() == "backoff")
                self.trace.append(f"follower backs off: {cluster.reason()}")
            else:
                await until(self.is_caught_up)
        return "\n".join(self.trace) or "nothing: the follower agrees with the leader and has everything"

    def is_caught_up(self) -> bool:
        leader, follower = self.cluster.log, self.cluster.follower.log
        last = leader.log_end_offset - 1
        return (
            follower.log_end_offset == leader.log_end_offset
            and follower.epochs.epoch_for_offset(last) == leader.epochs.epoch_for_offset(last)
            and follower.high_watermark >= leader.high_watermark
            and self.cluster.state() == "fetching"
        )

    def tracing(self) -> None:
        """Write down what goes through the ports."""
        cluster = self.cluster
        cluster.endpoint = TracingLeader(cluster.leader, self.trace)
        cluster.follower.before_effect = lambda effect: self.trace.append(f"follower: {effect}")
        cluster.tier.storage.on_call = self.trace_tier

    def trace_tier(self, operation: str, segment_id: RemoteLogSegmentId) -> None:
        metadata = self.cluster.tier.ledger().get(segment_id)
        assert metadata is not None
        self.trace.append(f"tier: {operation} of segment {metadata.start_offset}-{metadata.end_offset}")


class TracingLeader:
    """A `LeaderEndpoint` that writes down each question with its answer; fetches without news are left out."""

    def __init__(self, leader: StubLeader, trace: list[str]) -> None:
        self._leader = leader
        self._trace = trace

    @property
    def broker_id(self) -> int:
        return self._leader.broker_id

    async def fetch(
        self,
        partitions: Mapping[TopicIdPartition, PartitionToFetch],
        touched: Collection[TopicIdPartition],
        limits: FetchLimits,
        arrived: Arrived,
        begins: Begins = pass_over,
    ) -> Mapping[TopicIdPartition, FetchedPartition]:
        wanted = list(partitions.values())
        answers = await self._leader.fetch(partitions, touched, limits, arrived, begins)
        for asked in wanted:
            answer = answers[asked.partition]
            if answer.error or answer.diverging_epoch or answer.records:
                question = f"fetch {asked.fetch_offset}, last epoch {asked.last_fetched_epoch}"
                self._trace.append(f"leader: {question} -> {fetched(answer)}")
        return answers

    async def list_offset(self, partition: TopicIdPartition, leader_epoch: int, timestamp: int) -> OffsetAndEpoch:
        with self._refusals(f"list-offset {timestamp}"):
            answer = await self._leader.list_offset(partition, leader_epoch, timestamp)
        self._trace.append(f"leader: list-offset {timestamp} -> {text_of(answer)}")
        return answer

    async def end_offset_for_leader_epoch(self, partition: TopicIdPartition, leader_epoch: int, epoch: int) -> EpochEnd:
        with self._refusals(f"end-of-epoch {epoch}"):
            end = await self._leader.end_offset_for_leader_epoch(partition, leader_epoch, epoch)
        self._trace.append(f"leader: end-of-epoch {epoch} -> epoch {end.epoch} ends at {end.end_offset}")
        return end

    async def close(self) -> None:
        await self._leader.close()

    @contextmanager
    def _refusals(self, question: str) -> Iterator[None]:
        try:
            yield
        except KafkaError as error:
            self._trace.append(f"leader: {question} -> {error.code.name} ({error.code.value})")
            raise


def log_of(options: Mapping[str, str]) -> ModelLog:
    epochs = [tuple(int(part) for part in entry.split("@")) for entry in options.get("epochs", "0@0").split(",")]
    log = model_log(
        *[(epoch, start) for epoch, start in epochs], end=int(options["end"]), start=int(options.get("start", "0"))
    )
    log.local_log_start_offset = max(log.log_start_offset, int(options.get("local-start", "0")))
    return log


def describe(log: ModelLog) -> str:
    epochs = " ".join(f"{entry.epoch}@{entry.start_offset}" for entry in log.epochs.entries)
    local = max(log.log_start_offset, log.local_log_start_offset)
    return (
        f"log [{log.log_start_offset}, {log.log_end_offset}), local from {local}, "
        f"high watermark {log.high_watermark}, epochs {epochs or 'none'}"
    )


def fetched(answer: FetchedPartition) -> str:
    if answer.error:
        return f"{answer.error.name} ({answer.error.value})"
    if answer.diverging_epoch is not None:
        return f"diverging: epoch {answer.diverging_epoch.epoch} ends at {answer.diverging_epoch.end_offset}"
    headers = [header for _, header in iter_batches(answer.records)]
    return f"records {headers[0].base_offset}-{headers[-1].last_offset}"


def text_of(answer: OffsetAndEpoch) -> str:
    return f"offset {answer.offset}, epoch {answer.leader_epoch}"


def refusal(refused: Refuse) -> str:
    return f"{refused.error.name} ({refused.error.value}): {refused.reason}"
