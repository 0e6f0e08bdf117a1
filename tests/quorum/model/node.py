"""One replica of the model: its core, its disk, and what it lets out when something happens to it.

What happens to a replica depends on nothing but its own state and the event, so each (state, event) is computed once:
worlds are many, replicas in them few.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from itertools import permutations
from typing import Any

from tierfetch.protocol.errors import ErrorCode
from tierfetch.quorum.core.effects import (
    AppendRecords,
    BecameLeader,
    DataBatch,
    Effect,
    Fatal,
    Flush,
    HighWatermarkAdvanced,
    LogEffect,
    PersistState,
    Reply,
    Send,
)
from tierfetch.quorum.core.events import Event, LogCompleted, RequestFailed, ResponseReceived, Started, StatePersisted
from tierfetch.quorum.core.machine import RaftCore
from tierfetch.quorum.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    PeerRequest,
    PeerResponse,
    ReadRange,
    VoteRequest,
    VoteResponse,
)
from tierfetch.quorum.core.roles import Unattached
from tierfetch.quorum.core.state import NO_DIRECTORY_ID, LeaderAndEpoch

from ..cluster import InvariantBroken
from ..disk import Entry, MemoryDisk
from .clone import NoChance, abstract_time, clone, fingerprint, model_config

PRE_VOTE_GRANTED = VoteResponse(error=ErrorCode.none, leader=LeaderAndEpoch(None, 0), granted=True)


ANYBODY = -1


@dataclass(frozen=True, slots=True)
class Message:
    """A request on its way to `target`, or its `response` on the way back to `source`. Both are indexes, from 0.

    A Vote is to `ANYBODY`, and stays. BeginQuorumEpoch is nowhere: the world knows who led.
    """

    source: int
    target: int
    request: PeerRequest
    response: PeerResponse | None = None


@dataclass(frozen=True, slots=True)
class Led:
    epoch: int


@dataclass(frozen=True, slots=True)
class Committed:
    history: tuple[Entry, ...]


Output = Message | Led | Committed


@dataclass(slots=True)
class ModelNode:
    """`to_persist`, `to_flush`: with the disk. Never changed once it has `numbers`: they stand for its state, as it is
    (the first), and with the nodes called otherwise (`renamings`)."""

    core: RaftCore
    disk: MemoryDisk
    to_persist: tuple[PersistState, ...] = ()
    to_flush: tuple[Flush, ...] = ()
    numbers: tuple[int, ...] = ()

    @property
    def is_disk_busy(self) -> bool:
        return bool(self.to_persist or self.to_flush)


_NUMBERS: dict[Any, int] = {}
_MESSAGES: dict[int, tuple[int, ...]] = {}
_VALUES: list[Any] = []


def number_of(value: Any) -> int:
    """What was hashed once is compared and hashed as a number from then on."""
    number = _NUMBERS.get(value)
    if number is None:
        number = _NUMBERS[value] = len(_VALUES)
        _VALUES.append(value)
    return number


def value_of(number: int) -> Any:
    return _VALUES[number]


@cache
def renamings(voters: int) -> tuple[tuple[int, ...], ...]:
    """Every way to call nodes 1..voters otherwise, the first is none; index 0 is nobody."""
    return tuple((0, *order) for order in permutations(range(1, voters + 1)))


def message_numbers(number: int, voters: int) -> tuple[int, ...]:
    """The message, under each renaming."""
    numbers = _MESSAGES.get(number)
    if numbers is None:
        message = value_of(number)
        numbers = _MESSAGES[number] = tuple([number_of(fingerprint(message, names)) for names in renamings(voters)])
    return numbers


@dataclass(slots=True)
class _Reaction:
    """`flushes`: whether the disk is done before anything else happens."""

    index: int
    node: ModelNode
    outputs: list[Output] = field(default_factory=list)

    def step(self, event: Event, now_ms: int = 0) -> None:
        core = self.node.core
        epoch = core.epoch
        for effect in core.step(event, max(now_ms, core._replica.now_ms)):
            self.perform(effect)
        if core.epoch < epoch:
            raise InvariantBroken(f"the epoch of {self.index} fell from {epoch} to {core.epoch}")

    def perform(self, effect: Effect) -> None:
        node = self.node
        if isinstance(effect, PersistState):
            node.to_persist = (*node.to_persist, effect)
        elif isinstance(effect, Flush):
            node.to_flush = (*node.to_flush, effect)
        elif isinstance(effect, LogEffect):
            while node.to_flush:
                self.flush()
            node.disk = node.disk.perform(plain(effect))
            self.step(LogCompleted(effect))
        elif isinstance(effect, Send):
            self.send(effect)
        elif isinstance(effect, Reply):
            self.reply(effect.token, effect.response)
        elif isinstance(effect, BecameLeader):
            self.outputs.append(Led(effect.epoch))
        elif isinstance(effect, HighWatermarkAdvanced):
            self.outputs.append(Committed(node.disk.history(effect.offset)))
        elif isinstance(effect, Fatal):
            raise InvariantBroken(f"{self.index} stops: {effect.reason}")

    def flush(self) -> None:
        node = self.node
        effect, node.to_flush = node.to_flush[0], node.to_flush[1:]
        node.disk = node.disk.perform(effect)
        self.step(LogCompleted(effect))

    def persist(self) -> None:
        node = self.node
        effect, node.to_persist = node.to_persist[0], node.to_persist[1:]
        node.disk = replace(node.disk, election=effect.state)
        self.step(StatePersisted(effect.state))

    def serve_disk(self) -> None:
        while self.node.is_disk_busy:
            if self.node.to_persist:
                self.persist()
            if self.node.to_flush:
                self.flush()

    def send(self, effect: Send) -> None:
        request = effect.request
        is_searching = isinstance(self.node.core._replica.role, Unattached)
        if isinstance(request, VoteRequest) and request.pre_vote:
            self.step(ResponseReceived(effect.peer_id, request, PRE_VOTE_GRANTED))
        elif isinstance(request, VoteRequest):
            self.outputs.append(Message(self.index, ANYBODY, replace(request, voter=None)))
        elif isinstance(request, BeginQuorumEpochRequest):
            if request.voter is not None and request.voter.directory_id != NO_DIRECTORY_ID:
                self.step(ResponseReceived(effect.peer_id, request, self.confirmed(request)))
        elif isinstance(request, FetchRequest) and not is_searching:
            self.outputs.append(Message(self.index, effect.peer_id - 1, request))
        else:
            self.step(RequestFailed(effect.peer_id, request))

    @staticmethod
    def confirmed(request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
        """What a voter's listener says of the directory that is asked for."""
        leader = LeaderAndEpoch(request.leader_id, request.epoch)
        return BeginQuorumEpochResponse(error=ErrorCode.none, leader=leader)

    def reply(self, message: Message, response: PeerResponse) -> None:
        if isinstance(response, FetchResponse) and isinstance(response.records, ReadRange):
            response = replace(response, records=self.node.disk.read(response.records, 1))
        self.outputs.append(replace(message, response=response))


def plain(effect: LogEffect) -> LogEffect:
    """Without who voted for the leader: states that differ only in that are one."""
    if not isinstance(effect, AppendRecords):
        return effect
    batches = [DataBatch(batch.base_offset, tuple(map(_plain_value, batch.records))) for batch in effect.batches]
    return replace(effect, batches=tuple(batches))


def _plain_value(value: object) -> bytes:
    return value if isinstance(value, bytes) else b"leader"


Result = tuple[ModelNode, tuple[Output, ...]]
_MEMORY: dict[tuple[object, ...], Result] = {}


def forget_all() -> None:
    """Before the core's behaviour is patched, and after."""
    for memory in (_MEMORY, _NUMBERS, _MESSAGES, _VALUES):
        memory.clear()


def react(index: int, node: ModelNode, event: Event | str, *, now_ms: int = 0, disk_is_instant: bool) -> Result:
    """After `event`, or after the disk is done with what "persist" or "flush" names."""
    key = (node.numbers[0], event, now_ms, disk_is_instant)
    result = _MEMORY.get(key)
    if result is None:
        copy = ModelNode(clone(node.core), node.disk, node.to_persist, node.to_flush)
        reaction = _Reaction(index, copy)
        if event == "persist":
            reaction.persist()
        elif event == "flush":
            reaction.flush()
        else:
            reaction.step(event, now_ms)
        result = _MEMORY[key] = _finish(reaction, disk_is_instant)
    return result


def begin(index: int, disk: MemoryDisk, *, disk_is_instant: bool) -> Result:
    """A replica that starts from what its disk holds."""
    key = (index, disk, disk_is_instant)
    result = _MEMORY.get(key)
    if result is None:
        core = RaftCore(model_config(index + 1), disk.recovered(), NoChance())
        reaction = _Reaction(index, ModelNode(core, disk))
        reaction.step(Started())
        result = _MEMORY[key] = _finish(reaction, disk_is_instant)
    return result


def _finish(reaction: _Reaction, disk_is_instant: bool) -> Result:
    if disk_is_instant:
        reaction.serve_disk()
    node = reaction.node
    abstract_time(node.core)
    state = (node.core, node.disk, node.to_persist, node.to_flush)
    voters = len(node.core.voters_at_end.voters)
    node.numbers = tuple(
        [number_of((names[reaction.index + 1], fingerprint(state, names))) for names in renamings(voters)]
    )
    return node, tuple(reaction.outputs)
