"""The language of the quorum's transcripts: one replica, what happens to it, and every effect in a line.

    replica id=1 voters=1,2,3 [log=1,1,2] [epoch= leader= voted=] [kraft=0|1] [snapshot=3@1] [cluster=] [observer] [ms=]
            [unproven] [autojoin] [dir=]
    tick [ms=]                              time passes (to the timer, if not said), and the timer fires if it is due
    vote | prevote from= epoch= last=offset@epoch [cluster=] [voter=]
    begin | end from= epoch= [successors=1,2] [cluster=]
    fetch from= epoch= offset= last= [wait=] [hw=] [cluster=] [dir=]
    fetchsnapshot from= epoch= id=offset@epoch position=
    describe | add id= | remove id= | update id= | upgrade level= [epoch=] [validate]
    answer from= <vote|begin|end|fetch|fetchsnapshot|update|add|remove> [error=] [epoch=] [leader=] [told] [...]
    fail to= <kind>                         no answer came
    disk [n]                                the next n writes, flushes or persists are done; all of them if not said
    append a b c [base=] | resign | shutdown | lost peer= | snapshot id=offset@epoch start=offset@epoch
    installed id= | rejected id= | refused | logfailed
    state                                   what the replica is now

Voters have directory ids of their own; `dir=` names another one, or none. In an answer to Fetch `records=2,3` are the
epochs of the records from the fetch offset on. An answer is to the last such request, and says where the leader listens
if it is `told`. Fields that are 0, empty or no are not shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any
from uuid import UUID

from tierfetch.fetcher.core.epoch_fetch import DivergingEpoch
from tierfetch.log.core import EpochEntry, LeaderEpochCache
from tierfetch.protocol.errors import ErrorCode
from tierfetch.quorum.core.config import RaftConfig
from tierfetch.quorum.core.effects import (
    ControlBatch,
    DataBatch,
    Effect,
    Fatal,
    InstallSnapshot,
    LogEffect,
    PersistState,
    Reply,
    Send,
    SetTimer,
    SnapshotChunkAppend,
    VotersChanged,
    VotersRecord,
)
from tierfetch.quorum.core.events import (
    Append,
    ConnectionLost,
    Event,
    LogCompleted,
    LogFailed,
    RecoveredState,
    RequestFailed,
    RequestReceived,
    Resign,
    ResponseReceived,
    Shutdown,
    SnapshotChunkRefused,
    SnapshotChunkWritten,
    SnapshotInstalled,
    SnapshotRejected,
    SnapshotTaken,
    Started,
    StatePersisted,
    TimerFired,
)
from tierfetch.quorum.core.machine import RaftCore
from tierfetch.quorum.core.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchedBatch,
    FetchedRecords,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    SnapshotChunk,
    UpdateVoterRequest,
    UpgradeKRaftVersionRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from tierfetch.quorum.core.state import ElectionState, Endpoint, LeaderAndEpoch, OffsetAndEpoch, ReplicaKey
from tierfetch.quorum.core.voters import VoterNode, VotersAt, VoterSet

from .cluster import CLUSTER_ID, endpoints_of, key_of, voter_of, voters_of

KINDS: dict[str, type] = {
    "vote": VoteRequest,
    "prevote": VoteRequest,
    "begin": BeginQuorumEpochRequest,
    "end": EndQuorumEpochRequest,
    "fetch": FetchRequest,
    "fetchsnapshot": FetchSnapshotRequest,
    "update": UpdateVoterRequest,
    "add": AddVoterRequest,
    "remove": RemoveVoterRequest,
}
Options = dict[str, str]


class Middle:
    """Half of what may be drawn: transcripts show every random delay as the same."""

    def randrange(self, start: int, stop: int) -> int:
        return (start + stop) // 2


class Replica:
    """One core between commands: `sent` and `disk` are what it waits for."""

    def __init__(self) -> None:
        self.core: RaftCore | None = None
        self.now_ms = 0
        self.timer_ms: int | None = None
        self.key = key_of(0)
        self.sent: list[Send] = []
        self.disk: deque[Effect] = deque()
        self.requests = 0

    async def run(self, words: list[str], options: Options) -> str:
        command = getattr(self, f"do_{words[0]}")
        return "\n".join(command(words[1:], options)) or "-"

    def step(self, event: Event) -> list[str]:
        assert self.core is not None
        lines = []
        for effect in self.core.step(event, self.now_ms):
            self._note(effect)
            if not isinstance(effect, VotersChanged):
                lines.append(show(effect))
        return lines

    def _note(self, effect: Effect) -> None:
        if isinstance(effect, SetTimer):
            self.timer_ms = effect.deadline_ms
        elif isinstance(effect, Send):
            self.sent.append(effect)
        elif isinstance(effect, PersistState | LogEffect | SnapshotChunkAppend | InstallSnapshot):
            self.disk.append(effect)

    def request(self, request: Any) -> list[str]:
        self.requests += 1
        return self.step(RequestReceived(f"request {self.requests}", request))

    # --- the replica

    def do_replica(self, words: list[str], options: Options) -> list[str]:
        self.key = key_of(int(options["id"]), int(options.get("dir", "0")))
        voters = voters_of(ids(options.get("voters", "")), int(options.get("kraft", "1")))
        endpoints = () if "broker" in words else endpoints_of(self.key.id)
        cluster = options.get("cluster", CLUSTER_ID)
        config = RaftConfig(
            key=self.key,
            cluster_id=None if cluster == "none" else cluster,
            endpoints=endpoints,
            bootstrap_servers=(Endpoint("CONTROLLER", "bootstrap", 9093),) if "bootstrap" in words else (),
            append_linger_ms=int(options.get("linger", "0")),
            auto_join="autojoin" in words,
        )
        start = position(options.get("start", "0@0"))
        snapshot = options.get("snapshot")
        epochs = LeaderEpochCache()
        log = ids(options.get("log", ""))
        for offset, epoch in enumerate(log, start.offset):
            epochs.assign(epoch, offset)
        recovered = RecoveredState(
            voters=(voters,),
            election=ElectionState(
                int(options.get("epoch", log[-1] if log else 0)),
                optional_id(options.get("leader", "none")),
                key_of(int(options["voted"])) if "voted" in options else None,
            ),
            epochs=tuple(EpochEntry(entry.epoch, entry.start_offset) for entry in epochs.entries),
            log_start=start,
            log_end_offset=start.offset + len(log),
            latest_snapshot=None if snapshot is None else position(snapshot),
            high_watermark=int(options.get("hw", start.offset)),
            is_unproven="unproven" in words,
        )
        self.now_ms = 0
        self.timer_ms = None
        self.sent.clear()
        self.disk.clear()
        self.core = RaftCore(config, recovered, Middle())
        return self.step(Started())

    def do_state(self, _: list[str], __: Options) -> list[str]:
        core = self.core
        assert core is not None
        status = core.status
        role = "voter" if status.is_voter else "observer"
        voters = ",".join(str(node.id) for node in core.voters_at_end.voters)
        return [
            f"{core.state.value} ({role}) epoch={core.epoch} leader={status.leader_and_epoch.leader_id} "
            f"voted={status.voted_id} end={core.log_end_offset} hw={status.high_watermark} voters={voters}"
        ]

    def do_tick(self, _: list[str], options: Options) -> list[str]:
        if "ms" in options:
            self.now_ms += int(options["ms"])
        else:
            assert self.timer_ms is not None, "no timer is set"
            self.now_ms = max(self.now_ms, self.timer_ms)
        is_due = self.timer_ms is not None and self.now_ms >= self.timer_ms
        return [f"now {self.now_ms}", *(self.step(TimerFired()) if is_due else [])]

    def do_disk(self, words: list[str], _: Options) -> list[str]:
        lines = []
        for _index in range(int(words[0]) if words else 1_000):
            if not self.disk:
                break
            effect = self.disk.popleft()
            if isinstance(effect, PersistState):
                event: Event = StatePersisted(effect.state)
            elif isinstance(effect, SnapshotChunkAppend):
                event = SnapshotChunkWritten(effect)
            elif isinstance(effect, InstallSnapshot):
                event = SnapshotInstalled(effect.snapshot_id, voters_of((1, 2, 3)))
            else:
                event = LogCompleted(effect)
            lines.append(f"{type(effect).__name__} done")
            lines += self.step(event)
        return lines

    # --- requests

    def do_vote(self, words: list[str], options: Options, *, pre_vote: bool = False) -> list[str]:
        voter = options.get("voter")
        return self.request(
            VoteRequest(
                cluster_id=cluster_of(options),
                candidate=sender(options),
                epoch=int(options["epoch"]),
                last=position(options["last"]),
                pre_vote=pre_vote,
                voter=None if voter is None else key_of(int(voter)),
            )
        )

    def do_prevote(self, words: list[str], options: Options) -> list[str]:
        return self.do_vote(words, options, pre_vote=True)

    def do_begin(self, _: list[str], options: Options) -> list[str]:
        leader = sender(options)
        voter = options.get("voter")
        request = BeginQuorumEpochRequest(
            cluster_id=cluster_of(options),
            leader_id=leader.id,
            epoch=int(options["epoch"]),
            endpoints=endpoints_of(leader.id),
            voter=None if voter is None else key_of(int(voter)),
        )
        return self.request(request)

    def do_end(self, _: list[str], options: Options) -> list[str]:
        request = EndQuorumEpochRequest(
            cluster_id=cluster_of(options),
            leader_id=sender(options).id,
            epoch=int(options["epoch"]),
            preferred_successors=tuple(key_of(node_id) for node_id in ids(options.get("successors", ""))),
        )
        return self.request(request)

    def do_fetch(self, _: list[str], options: Options) -> list[str]:
        request = FetchRequest(
            cluster_id=cluster_of(options),
            replica=sender(options),
            epoch=int(options["epoch"]),
            fetch_offset=int(options["offset"]),
            last_fetched_epoch=int(options["last"]),
            max_wait_ms=int(options.get("wait", "0")),
            high_watermark=int(options.get("hw", "-1")),
        )
        return self.request(request)

    def do_fetchsnapshot(self, _: list[str], options: Options) -> list[str]:
        request = FetchSnapshotRequest(
            cluster_id=cluster_of(options),
            replica=sender(options),
            epoch=int(options["epoch"]),
            snapshot_id=position(options["id"]),
            position=int(options["position"]),
        )
        return self.request(request)

    def do_describe(self, _: list[str], __: Options) -> list[str]:
        return self.request(DescribeQuorumRequest())

    def do_add(self, words: list[str], options: Options) -> list[str]:
        return self.request(
            AddVoterRequest(
                cluster_id=cluster_of(options),
                voter=voter_of(int(options["id"]), int(options.get("dir", "0"))),
                timeout_ms=int(options.get("timeout", "5000")),
                ack_when_committed="early" not in words,
            )
        )

    def do_remove(self, _: list[str], options: Options) -> list[str]:
        voter = key_of(int(options["id"]), int(options.get("dir", "0")))
        return self.request(RemoveVoterRequest(cluster_id=cluster_of(options), voter=voter))

    def do_update(self, _: list[str], options: Options) -> list[str]:
        levels = range(int(options.get("min", "0")), int(options.get("max", "1")) + 1)
        endpoint = Endpoint("CONTROLLER", options["host"], 9093)
        endpoints = (endpoint,) * int(options.get("listeners", "1"))
        node = VoterNode(key_of(int(options["id"])), endpoints, levels[0], levels[-1])
        return self.request(UpdateVoterRequest(cluster_id=cluster_of(options), epoch=int(options["epoch"]), voter=node))

    def do_upgrade(self, words: list[str], options: Options) -> list[str]:
        assert self.core is not None
        epoch = int(options.get("epoch", self.core.epoch))
        level = int(options["level"])
        return self.request(UpgradeKRaftVersionRequest(epoch=epoch, level=level, validate_only="validate" in words))

    # --- answers

    def do_answer(self, words: list[str], options: Options) -> list[str]:
        send = self._take_sent(words[0], int(options["from"]))
        return self.step(ResponseReceived(send.peer_id, send.request, self._response(words, options, send.request)))

    def do_fail(self, words: list[str], options: Options) -> list[str]:
        send = self._take_sent(words[0], int(options["to"]))
        return self.step(RequestFailed(send.peer_id, send.request))

    def _take_sent(self, kind: str, peer_id: int) -> Send:
        for send in reversed(self.sent):
            is_kind = isinstance(send.request, KINDS[kind])
            if isinstance(send.request, VoteRequest):
                is_kind = is_kind and send.request.pre_vote == (kind == "prevote")
            if send.peer_id == peer_id and is_kind:
                self.sent.remove(send)
                return send
        raise AssertionError(f"no {kind} to {peer_id} is under way: {self.sent}")

    def _response(self, words: list[str], options: Options, request: Any) -> Any:
        core = self.core
        assert core is not None
        epoch = int(options.get("epoch", core.epoch))
        known = core.status.leader_and_epoch.leader_id if epoch == core.epoch else None
        leader = LeaderAndEpoch(optional_id(options.get("leader", str(known).lower())), epoch)
        common: Options | dict[str, Any] = {"error": ErrorCode[options.get("error", "none")], "leader": leader}
        if "told" in words:
            assert leader.leader_id is not None
            common["leader_endpoint"] = endpoints_of(leader.leader_id)[0]
        if isinstance(request, VoteRequest):
            return VoteResponse(**common, granted="granted" in words)
        if isinstance(request, BeginQuorumEpochRequest):
            return BeginQuorumEpochResponse(**common)
        if isinstance(request, EndQuorumEpochRequest):
            return EndQuorumEpochResponse(**common)
        if isinstance(request, UpdateVoterRequest | AddVoterRequest | RemoveVoterRequest):
            return VoterChangeResponse(**common)
        if isinstance(request, FetchSnapshotRequest):
            chunk = None
            if "length" in options:
                chunk = SnapshotChunk(b"", request.position, int(options["length"]), int(options["size"]))
            return FetchSnapshotResponse(**common, snapshot_id=request.snapshot_id, chunk=chunk)
        return self._fetch_response(options, request, common)

    def _fetch_response(self, options: Options, request: FetchRequest, common: dict[str, Any]) -> FetchResponse:
        offset = request.fetch_offset
        records = None
        if "records" in options:
            epochs = ids(options["records"])
            batches = tuple(FetchedBatch(offset + i, offset + i, epoch) for i, epoch in enumerate(epochs))
            voters: tuple[VotersAt, ...] = ()
            if "voters" in options:
                voters = (VotersAt(offset, voters_of(ids(options["voters"])).voters, 1),)
            records = FetchedRecords(b"", batches, voters)
        diverging = position(options["diverging"]) if "diverging" in options else None
        return FetchResponse(
            **common,
            high_watermark=int(options.get("hw", "-1")),
            log_start_offset=0,
            diverging=None if diverging is None else DivergingEpoch(diverging.epoch, diverging.offset),
            snapshot_id=position(options["snapshot"]) if "snapshot" in options else None,
            records=records,
        )

    # --- the rest

    def do_append(self, words: list[str], options: Options) -> list[str]:
        assert self.core is not None
        self.requests += 1
        epoch = int(options.get("epoch", self.core.epoch))
        records = tuple(word.encode() for word in words)
        base_offset = int(options["base"]) if "base" in options else None
        return self.step(Append(f"append {self.requests}", epoch, records, base_offset))

    def do_resign(self, _: list[str], __: Options) -> list[str]:
        assert self.core is not None
        return self.step(Resign(self.core.epoch))

    def do_shutdown(self, _: list[str], __: Options) -> list[str]:
        return self.step(Shutdown())

    def do_lost(self, _: list[str], options: Options) -> list[str]:
        return self.step(ConnectionLost(int(options["peer"])))

    def do_snapshot(self, _: list[str], options: Options) -> list[str]:
        return self.step(SnapshotTaken(position(options["id"]), position(options["start"])))

    def do_rejected(self, _: list[str], options: Options) -> list[str]:
        effect = self.disk.popleft()
        assert isinstance(effect, InstallSnapshot), effect
        return self.step(SnapshotRejected(effect.snapshot_id, options.get("reason", "no footer")))

    def do_refused(self, _: list[str], __: Options) -> list[str]:
        effect = self.disk.popleft()
        assert isinstance(effect, SnapshotChunkAppend), effect
        return self.step(SnapshotChunkRefused(effect))

    def do_logfailed(self, words: list[str], _: Options) -> list[str]:
        return self.step(LogFailed(" ".join(words)))


def ids(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word]


def optional_id(text: str) -> int | None:
    return None if text == "none" else int(text)


def position(text: str) -> OffsetAndEpoch:
    offset, epoch = text.split("@")
    return OffsetAndEpoch(int(offset), int(epoch))


def cluster_of(options: Options) -> str | None:
    name = options.get("cluster", CLUSTER_ID)
    return None if name == "none" else name


def sender(options: Options) -> ReplicaKey:
    if options["from"] == "nobody":
        return ReplicaKey(-1)
    if options.get("dir") == "none":
        return ReplicaKey(int(options["from"]))
    return key_of(int(options["from"]), int(options.get("dir", "0")))


def show(effect: Effect) -> str:
    """One line: what it is, and its fields that say something."""
    if isinstance(effect, PersistState):
        return f"persist {shown(effect.state)}{' proven' if effect.is_proven else ''}"
    if isinstance(effect, Send):
        return f"send to {effect.peer_id}: {shown(effect.request)}"
    if isinstance(effect, Reply):
        return f"reply to {effect.token}: {shown(effect.response)}"
    if isinstance(effect, SetTimer):
        return f"timer {'none' if effect.deadline_ms is None else effect.deadline_ms}"
    if isinstance(effect, Fatal):
        return f"FATAL {effect.reason}"
    return shown(effect)


_UNSAID: frozenset[str] = frozenset({"endpoints", "leader_endpoint", "payload", "max_bytes", "nodes"})
"""Nor who is addressed, unless it is another directory than the voter's."""
_SHOWN: dict[type, Callable[[Any], str]] = {
    OffsetAndEpoch: str,
    ErrorCode: lambda error: error.name,
    ReplicaKey: lambda key: str(key.id) if key.id < 0 or key in (key_of(key.id), ReplicaKey(key.id)) else f"{key.id}*",
    LeaderAndEpoch: lambda leader: f"{leader.leader_id}/{leader.epoch}",
    ElectionState: lambda state: f"epoch={state.epoch} leader={state.leader_id} voted={shown(state.voted_key)}",
    DivergingEpoch: lambda diverging: f"{diverging.end_offset}@{diverging.epoch}",
    VoterSet: lambda voters: ",".join(str(node.id) for node in voters),
    VotersRecord: lambda record: f"Voters({shown(record.voters)})",
    VoterNode: lambda node: shown(node.key),
    FetchedBatch: lambda batch: f"{batch.base_offset}@{batch.epoch}",
    ControlBatch: lambda batch: f"{batch.base_offset}:{shown(batch.records)}",
    DataBatch: lambda batch: f"{batch.base_offset}:{shown(batch.records)}",
    bytes: lambda data: data.decode(),
    UUID: lambda value: str(value.int),
}


def shown(value: Any) -> str:
    how = _SHOWN.get(type(value))
    if how is not None:
        return how(value)
    if isinstance(value, tuple):
        return f"[{' '.join(shown(item) for item in value)}]"
    if not is_dataclass(value):
        return str(value)
    name = type(value).__name__.removesuffix("Request").removesuffix("Response").removesuffix("Record")
    parts = [
        f"{field.name}={shown(part)}"
        for field in fields(value)
        if field.name not in _UNSAID
        and (part := getattr(value, field.name)) not in (None, (), "", False)
        and (field.name != "voter" or (isinstance(part, ReplicaKey) and shown(part).endswith("*")))
    ]
    return f"{name}({' '.join(parts)})"
