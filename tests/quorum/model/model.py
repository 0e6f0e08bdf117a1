"""Every behaviour of a small quorum: which actions are possible in a state, where each leads, what must hold there.

    action           what happens
    ---------------  --------------------------------------------------------------------------------------------
    vote             a candidate's request reaches a voter, at any time after it was sent, or never, or again
    begin            BeginQuorumEpoch of any epoch's leader reaches a replica, at any time, or never, or again
    fetch            a Fetch in flight reaches its target, at any time, or never
    lose             the same, but the answer is lost (bounded)
    persist, flush   the oldest of a replica's disk operations is done
    tick             retries come due at one replica, or all of its timeouts do: clocks have nothing in common
    append           the leader takes a record (bounded)
    crash            a replica loses its memory and what was not flushed, or keeps what was written (bounded)

Bounds: epochs, records of a log, crashes, lost answers, appends. States beyond them are not entered.

What the model leaves out or makes coarser, and why that hides no violation of safety:

* Votes and BeginQuorumEpoch are facts that stay, not messages that are used up: retries deliver them again anyway.
* Pre-votes are always granted, at once. They bind nobody, so a real one can only prevent what the model does.
* Answers arrive when they are sent, unless `delays_answers`; until then it is the request that is late.
* A refused vote is not counted: the election ends by its timeout instead.
* The disk is instantaneous, unless `delays_disk`: what waits for it is as good as delayed on the network, and a crash
  in between is one before the event. (Unless a bug lets something out before the disk is done: hence the option.) After
  the last crash it is instantaneous in any case.
* One record a Fetch, so that every prefix of a log is a state.
* EndQuorumEpoch and the search for a leader by Fetch never arrive: both only make known, earlier, what Vote,
  BeginQuorumEpoch and Fetch answers make known, and start elections, which a tick may at any time.

* A voter's listener answers at once who it is (`quorum.core.identity`): a Fetch that comes before that answer counts
  for nothing, as if it came later.

What makes worlds one:

* The replicas are alike, so that worlds which differ only in what they are called do the same (symmetry).
* Who led an epoch that every replica has left, in memory and on its disk, is forgotten: nobody comes back to it, so
  nobody can begin to lead it, and its BeginQuorumEpoch is refused everywhere.
* Messages that can change nothing any more are dropped (`is_inert`).
* What was used of the bounds is no part of a world: see `explore`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tierfetch.protocol.errors import ErrorCode
from tierfetch.quorum.core.effects import Reply
from tierfetch.quorum.core.election import is_up_to_date
from tierfetch.quorum.core.events import Append, Event, RequestFailed, RequestReceived, ResponseReceived, TimerFired
from tierfetch.quorum.core.machine import RaftCore
from tierfetch.quorum.core.messages import BeginQuorumEpochRequest, VoteResponse
from tierfetch.quorum.core.roles import Candidate
from tierfetch.quorum.core.state import LeaderAndEpoch, RaftState

from ..cluster import InvariantBroken, voters_of
from ..disk import Entry, MemoryDisk
from .clone import TICK_LATE_MS, TICK_SOON_MS
from .node import (
    ANYBODY,
    Committed,
    Led,
    Message,
    ModelNode,
    Output,
    Result,
    begin,
    message_numbers,
    number_of,
    react,
    renamings,
    value_of,
)

Used = tuple[int, int, int]
"""Crashes, losses and appends so far."""


@dataclass(frozen=True)
class Bounds:
    voters: int = 3
    epochs: int = 3
    entries: int = 3
    crashes: int = 1
    losses: int = 1
    appends: int = 1
    keeps_page_cache: bool = False
    """Whether a crash may also spare what was written and not flushed."""
    delays_answers: bool = False
    """Whether an answer may take its time on the way back, too."""
    delays_disk: bool = False
    """Whether anything may come between what a replica decides and the end of the write or flush that follows."""


@dataclass(slots=True)
class World:
    """`net`: numbers of messages. Fingerprints are exact: numbers stand for values. `met`: shared by all worlds of one
    search, the identities of those that it came to, by whatever way."""

    nodes: tuple[ModelNode, ...]
    net: frozenset[int] = frozenset()
    leaders: tuple[tuple[int, int], ...] = ()
    committed: tuple[Entry, ...] = ()
    committed_number: int = 0
    crashes: int = 0
    losses: int = 0
    appends: int = 0
    met: set[tuple[object, ...]] = field(default_factory=set)

    def after(
        self,
        nodes: Sequence[ModelNode],
        net: frozenset[int],
        leaders: dict[int, int],
        committed: tuple[Entry, ...],
        budget: dict[str, int],
    ) -> World:
        """`budget`: what the action used up."""
        return World(
            tuple(nodes),
            net,
            tuple(sorted(leaders.items())),
            committed,
            self.committed_number if committed is self.committed else number_of(committed),
            crashes=budget.get("crashes", self.crashes),
            losses=budget.get("losses", self.losses),
            appends=budget.get("appends", self.appends),
            met=self.met,
        )

    def is_met(self) -> bool:
        """Whether the search has come to this very world; from now on it has."""
        identity = (self.identity(), self.used)
        is_known = identity in self.met
        self.met.add(identity)
        return is_known

    @property
    def used(self) -> Used:
        return self.crashes, self.losses, self.appends

    def identity(self) -> tuple[object, ...]:
        """Equal for equal worlds, whatever they have used, and cheap."""
        numbers = tuple([node.numbers[0] for node in self.nodes])
        return (numbers, self.net, self.leaders, self.committed_number)

    def fingerprint(self) -> tuple[object, ...]:
        """The same for worlds that differ only in what their nodes are called, and in what they have used."""
        voters = len(self.nodes)
        orders = [self._renamed(index, names) for index, names in enumerate(renamings(voters))]
        first = min(orders)
        net = [message_numbers(number, voters) for number in self.net]
        return min(
            (*first, tuple(sorted([message[index] for message in net])), self._leaders(names), self.committed_number)
            for index, names in enumerate(renamings(voters))
            if orders[index] == first
        )

    def _renamed(self, index: int, names: tuple[int, ...]) -> tuple[int, ...]:
        """The states of the nodes, in the order of the names that this renaming gives them."""
        numbers = [0] * len(self.nodes)
        for own, node in enumerate(self.nodes):
            numbers[names[own + 1] - 1] = node.numbers[index]
        return tuple(numbers)

    def _leaders(self, names: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        return tuple([(epoch, names[leader + 1]) for epoch, leader in self.leaders])


@dataclass(slots=True)
class _Action:
    """One action under way."""

    bounds: Bounds
    world: World
    nodes: list[ModelNode]
    net: set[int]
    leaders: dict[int, int]
    committed: tuple[Entry, ...]
    disk_is_instant: bool
    answers: deque[Message] = field(default_factory=deque)

    @classmethod
    def of(cls, bounds: Bounds, world: World, crashes: int | None = None) -> _Action:
        crashes = world.crashes if crashes is None else crashes
        is_instant = not bounds.delays_disk or crashes >= bounds.crashes > 0
        nodes, net, leaders = list(world.nodes), set(world.net), dict(world.leaders)
        return cls(bounds, world, nodes, net, leaders, world.committed, is_instant)

    def step(self, index: int, event: Event | str, now_ms: int = 0) -> None:
        node = self.nodes[index]
        self.take(index, react(index, node, event, now_ms=now_ms, disk_is_instant=self.disk_is_instant))

    def take(self, index: int, result: Result) -> None:
        self.nodes[index], outputs = result
        for output in outputs:
            self.output(index, output)

    def output(self, index: int, output: Output) -> None:
        if isinstance(output, Message):
            if output.response is None or (self.bounds.delays_answers and self.is_news(output)):
                self.net.add(number_of(output))
            elif self.is_news(output):
                self.answers.append(output)
        elif isinstance(output, Led):
            if self.leaders.setdefault(output.epoch, index) != index:
                raise InvariantBroken(f"{self.leaders[output.epoch]} and {index} both lead epoch {output.epoch}")
        else:
            self.check_committed(index, output)

    def is_news(self, message: Message) -> bool:
        """Whether the answer may change who asked."""
        source, response = self.nodes[message.source].core, message.response
        assert response is not None
        if isinstance(response, VoteResponse) and not response.granted and response.error is ErrorCode.none:
            return response.leader.epoch > source.epoch or response.leader.leader_id is not None
        return not isinstance(message.request, BeginQuorumEpochRequest) or response.leader.epoch > source.epoch

    def check_committed(self, index: int, output: Committed) -> None:
        history = output.history
        common = min(len(history), len(self.committed))
        if history[:common] != self.committed[:common]:
            raise InvariantBroken(f"{index} committed {history}, others {self.committed}")
        if len(history) > len(self.committed):
            self.committed = history

    def done(self, *, loses_answers: bool = False, **budget: int) -> World | None:
        """The world after the action; None beyond the bounds, or where the search has been."""
        while self.answers:
            message = self.answers.popleft()
            assert message.response is not None
            event: Event = ResponseReceived(message.target + 1, message.request, message.response)
            if loses_answers:
                event = RequestFailed(message.target + 1, message.request)
            self.step(message.source, event)
        for node in self.nodes:
            if node.core.epoch > self.bounds.epochs or node.core.log_end_offset > self.bounds.entries:
                return None
        left_epoch = min(min(node.core.epoch, node.disk.election.epoch) for node in self.nodes)
        leaders = {epoch: leader for epoch, leader in self.leaders.items() if epoch >= left_epoch}
        world = self.world.after(self.nodes, frozenset(self.net), leaders, self.committed, budget)
        if world.is_met():
            return None
        world.net = frozenset(number for number in self.net if not is_inert(self.nodes, value_of(number)))
        check_committed_is_safe(world)
        return world


def is_inert(nodes: Sequence[ModelNode], message: Message) -> bool:
    """Whether it can change nothing any more, at any target."""
    source = nodes[message.source].core
    epoch = message.request.epoch
    if message.response is not None:
        return epoch < source.epoch and message.response.leader.epoch <= source.epoch
    if message.target == ANYBODY:
        return all(
            is_vote_settled(source, node.core, epoch) for index, node in enumerate(nodes) if index != message.source
        )
    target = nodes[message.target].core
    return epoch < source.epoch and (epoch < target.epoch or target.state is not RaftState.LEADER)


def is_vote_settled(source: RaftCore, target: RaftCore, epoch: int) -> bool:
    """Whether a candidacy of `source` in `epoch` can move neither of the two any more."""
    if epoch < target.epoch:
        return epoch < source.epoch
    role = source._replica.role
    is_over = source.epoch > epoch or not isinstance(role, Candidate)
    status = target.status
    if epoch > target.epoch or (status.leader_and_epoch.leader_id is None and status.voted_id is None):
        return False
    return is_over or (status.voted_id == source._replica.key.id and target._replica.key.id in role.poll.granted)


def check_committed_is_safe(world: World) -> None:
    """It is on the disks of a majority, and no replica that lacks it could win an election: so leaders are complete in
    epochs to come, too."""
    committed = world.committed
    if not committed:
        return
    durable = sum(
        node.disk.entries[: node.disk.flushed_end_offset][: len(committed)] == committed for node in world.nodes
    )
    if durable * 2 <= len(world.nodes):
        raise InvariantBroken(f"{committed} was committed, and is on {durable} disks only")
    lasts = [node.core._replica.log.last for node in world.nodes]
    for index, node in enumerate(world.nodes):
        if _holds(node, committed):
            continue
        if node.core.state is RaftState.LEADER and node.core.epoch > committed[-1].epoch:
            raise InvariantBroken(f"{index} leads epoch {node.core.epoch} without {committed}")
        votes = sum(is_up_to_date(lasts[index], last) for last in lasts)
        if votes * 2 > len(lasts):
            raise InvariantBroken(f"{index} could be elected without {committed}")


def _holds(node: ModelNode, committed: tuple[Entry, ...]) -> bool:
    """As decided: an append that waits for the disk comes before any vote that is asked for with it."""
    log = node.core._replica.log
    epochs = [log.epochs.epoch_for_offset(offset) for offset in range(len(committed))]
    return log.end_offset >= len(committed) and epochs == [entry.epoch for entry in committed]


def initial_world(bounds: Bounds) -> World:
    ids = range(1, bounds.voters + 1)
    disk = MemoryDisk(voters_of(ids, kraft_version=0))
    nodes = [begin(index, disk, disk_is_instant=True)[0] for index in range(bounds.voters)]
    return World(tuple(nodes), committed_number=number_of(()))


def successors(bounds: Bounds, world: World) -> Iterator[tuple[str, World | None]]:
    """Every action that is possible, and where it leads; None: beyond the bounds. Raises `InvariantBroken`."""
    yield from _messages(bounds, world)
    for index, node in enumerate(world.nodes):
        yield from _disk(bounds, world, index, node)
        yield from _ticks(bounds, world, index)
        if world.appends < bounds.appends and node.core.state is RaftState.LEADER:
            action = _Action.of(bounds, world)
            action.step(index, Append("append", node.core.epoch, (b"x",)))
            yield f"append {index}", action.done(appends=world.appends + 1)
        if world.crashes < bounds.crashes:
            yield from _crashes(bounds, world, index, node)


def _messages(bounds: Bounds, world: World) -> Iterator[tuple[str, World | None]]:
    for number in sorted(world.net):
        message = value_of(number)
        if message.target != ANYBODY:
            yield from _deliver(bounds, world, message, used_up=number)
            continue
        source = world.nodes[message.source].core
        for index, node in enumerate(world.nodes):
            if index != message.source and not is_vote_settled(source, node.core, message.request.epoch):
                yield from _deliver(bounds, world, replace(message, target=index))
    for epoch, leader in world.leaders:
        for index, node in enumerate(world.nodes):
            core = node.core
            follows = core.status.leader_and_epoch == LeaderAndEpoch(leader + 1, epoch)
            if index == leader or core.epoch > epoch or follows:
                continue
            request = BeginQuorumEpochRequest(cluster_id=None, leader_id=leader + 1, epoch=epoch)
            yield from _deliver(bounds, world, Message(leader, index, request))


def _deliver(
    bounds: Bounds, world: World, message: Message, *, used_up: int | None = None
) -> Iterator[tuple[str, World | None]]:
    if _is_being_answered(world.nodes[message.target].core, message):
        return
    name = type(message.request).__name__.removesuffix("Request")
    text = f"{name} {message.source}->{message.target} epoch {message.request.epoch}"
    action = _Action.of(bounds, world)
    action.net.discard(used_up)
    if message.response is not None:
        action.step(message.source, ResponseReceived(message.target + 1, message.request, message.response))
        yield f"{text} answered", action.done()
        return
    action.step(message.target, RequestReceived(message, message.request))
    yield text, action.done()
    if world.losses < bounds.losses and not isinstance(message.request, BeginQuorumEpochRequest):
        action = _Action.of(bounds, world)
        action.net.discard(used_up)
        action.step(message.target, RequestReceived(message, message.request))
        yield f"{text}, answer lost", action.done(loses_answers=True, losses=world.losses + 1)


def _is_being_answered(target: RaftCore, message: Message) -> bool:
    """Whether the answer waits for the disk already: a request that comes again then changes nothing."""
    return any(isinstance(effect, Reply) and effect.token == message for effect in target._replica._held)


def _disk(bounds: Bounds, world: World, index: int, node: ModelNode) -> Iterator[tuple[str, World | None]]:
    for name, is_busy in (("persist", node.to_persist), ("flush", node.to_flush)):
        if is_busy:
            action = _Action.of(bounds, world)
            action.step(index, name)
            yield f"{name} {index}", action.done()


def _ticks(bounds: Bounds, world: World, index: int) -> Iterator[tuple[str, World | None]]:
    for name, now_ms in (("soon", TICK_SOON_MS), ("late", TICK_LATE_MS)):
        action = _Action.of(bounds, world)
        action.step(index, TimerFired(), now_ms)
        yield f"tick {index} {name}", action.done()


def _crashes(bounds: Bounds, world: World, index: int, node: ModelNode) -> Iterator[tuple[str, World | None]]:
    kept_offsets = {node.disk.flushed_end_offset}
    if bounds.keeps_page_cache:
        kept_offsets.add(node.disk.end_offset)
    for kept in sorted(kept_offsets):
        action = _Action.of(bounds, world, world.crashes + 1)
        action.net = {number for number in action.net if not _is_answer_to(value_of(number), index)}
        action.take(index, begin(index, node.disk.after_crash(kept), disk_is_instant=action.disk_is_instant))
        for other, busy in enumerate(action.nodes):
            if action.disk_is_instant and busy.is_disk_busy:
                action.step(other, "persist" if busy.to_persist else "flush")
        yield f"crash {index} keeps {kept}", action.done(crashes=world.crashes + 1)


def _is_answer_to(message: Message, index: int) -> bool:
    return message.response is not None and message.source == index
