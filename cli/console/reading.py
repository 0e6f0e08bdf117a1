"""Reads a live cluster for the console, with the functions that the other commands use.

    what                          if it cannot be read
    ----------------------------  -------------------------------------------------------------------------------------
    Metadata                      there is no look: OSError or KafkaError
    DescribeCluster               brokers that are not alive are not shown; Kafka before 2.8 and 4.0 has less
    DescribeLogDirs of a broker   its bytes, signs and bars are unknown; it is shown as unreachable, with when it was
                                  last seen, if it is not the request that it refuses
    groups, quorum, moves, plans  a problem on the page; the rest is shown

Every request has the deadline `CALL_S`, and what takes several of them `PART_S`. At most `AT_ONCE` brokers or groups
are asked at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import click

from ...console import Look, UnknownNameError, in_thread
from ...console.core import (
    Broker,
    Disk,
    Group,
    GroupLag,
    Lag,
    Move,
    Offsets,
    OnDisk,
    Overview,
    Partition,
    Plan,
    Prediction,
    Problem,
    Quorum,
    QuorumReplica,
    Wave,
)
from ...light_dataclass import dataclass
from ...planning import Standing
from ...protocol import BROKER_ENDPOINTS, OUTSIDE, ErrorCode, KafkaError, OperatorError, TopicPartition, cluster_of
from ...protocol.messages.cluster import DescribeClusterBroker
from ...protocol.net import Address
from ..admin.brokers import broker_row
from ..admin.leaders import by_leader, list_offsets
from ..admin.local_state import LocalState, read_local_state
from ..admin.partition_offsets import QUESTIONS, known_offset
from ..admin.plan_notes import plans_under_way
from ..admin.reassign import doing_text, plan_state, progress_of
from ..admin.reassign_cluster import PlanCluster, under_way
from ..admin.reassign_journal import JournalFile, default_path
from ..cluster_session import Admin, Cluster
from ..groups.command import group_lag
from ..groups.coordinators import list_groups
from ..groups.lag import total_lag
from ..quorum.admin import METADATA_LOG
from ..quorum.report import replication
from .prediction import predicted

T = TypeVar("T")

CALL_S: Final = 5.0
PART_S: Final = 15.0
AT_ONCE: Final = 8
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Found:
    """What one look read."""

    cluster: Cluster
    cluster_id: str
    brokers: tuple[DescribeClusterBroker, ...]
    states: Mapping[int, LocalState]
    unreachable: frozenset[int]
    seen_at_s: Mapping[int, float]


class ClusterReading:
    """`console.port.ClusterReader` over an admin's session, whose requests end after `CALL_S`."""

    def __init__(self, admin: Admin, *, plan: Path | None = None, known: Mapping[str, str] | None = None) -> None:
        self._admin = admin
        self._plan = plan
        self._known = known or {}
        self._cluster: Cluster | None = None
        self._cluster_id = ""
        """As the last look found it; plans of other clusters are then left alone without a request."""
        self._limit = asyncio.Semaphore(AT_ONCE)
        self._seen_at_s: dict[int, float] = {}
        """When each registered broker responded last, in seconds since the epoch."""

    async def look(self) -> Look:
        problems: list[Problem] = []
        cluster = self._cluster = await self._admin.cluster()
        self._admin.learn(cluster.brokers.values())
        (cluster_id, brokers), (states, unreachable), groups, quorum, moves, plans = await asyncio.gather(
            self._brokers(cluster, problems),
            self._states(cluster, problems),
            _or_none("groups", problems, lambda: self._groups(cluster)),
            _or_none("quorum", problems, self._quorum),
            _or_none("reassignments", problems, self._moves),
            self._plans(problems),
        )
        self._cluster_id = cluster_id
        registered = {each.broker_id for each in brokers}
        self._seen_at_s = {broker: at for broker, at in self._seen_at_s.items() if broker in registered}
        found = _Found(cluster, cluster_id, brokers, states, unreachable, self._seen_at_s)
        partitions, rows, disks = await in_thread(_assembled, found)
        overview = Overview(
            taken_at_s=time.time(),
            cluster_id=cluster_id,
            brokers=rows,
            partitions=partitions,
            groups=groups,
            quorum=quorum,
            moves=moves,
            plans=plans,
            problems=tuple(sorted(problems, key=lambda problem: problem.what)),
        )
        return Look(overview, disks)

    async def _brokers(
        self, cluster: Cluster, problems: list[Problem]
    ) -> tuple[str, tuple[DescribeClusterBroker, ...]]:
        """The cluster's id and the registered brokers; those that are alive where the request is not supported."""
        request = cluster_of(BROKER_ENDPOINTS, include_fenced_brokers=True)
        answer = await _or_none("brokers that are not alive", problems, lambda: self._admin.send(request))
        if answer is not None:
            return answer.cluster_id, answer.brokers
        return "", tuple(
            DescribeClusterBroker(broker_id=broker, host=at.host, port=at.port, rack=cluster.racks.get(broker))
            for broker, at in cluster.brokers.items()
        )

    async def _states(self, cluster: Cluster, problems: list[Problem]) -> tuple[dict[int, LocalState], frozenset[int]]:
        """What is on the disks of the brokers that answered, and the brokers that could not be reached."""
        states: dict[int, LocalState] = {}
        unreachable: set[int] = set()

        async def read(broker: int, address: Address) -> None:
            try:
                async with self._limit:
                    states[broker] = await read_local_state(self._admin, address)
            except OUTSIDE as error:
                problems.append(Problem(f"broker {broker}", f"what is on its disks is not known: {error}"))
                if not isinstance(error, KafkaError):
                    unreachable.add(broker)
                    return
            self._seen_at_s[broker] = time.time()

        await asyncio.gather(*(read(broker, at) for broker, at in cluster.brokers.items()))
        return states, frozenset(unreachable)

    async def _groups(self, cluster: Cluster) -> tuple[Group, ...]:
        return tuple(
            Group(group.group_id, group.group_state, group.group_type or group.protocol_type)
            for group in await list_groups(self._admin, cluster)
        )

    async def _quorum(self) -> Quorum:
        answer = await self._admin.send(METADATA_LOG)
        partition = answer.topics[0].partitions[0]
        if partition.error_code is not ErrorCode.none:
            raise KafkaError(partition.error_code, f"DescribeQuorum: {partition.error_code.name}")
        return Quorum(
            leader=partition.leader_id,
            epoch=partition.leader_epoch,
            high_watermark=partition.high_watermark,
            replicas=tuple(
                QuorumReplica(
                    id=row["NodeId"], role=row["Status"].lower(), log_end_offset=row["LogEndOffset"], lag=row["Lag"]
                )
                for row in replication(partition)
            ),
        )

    async def _moves(self) -> tuple[Move, ...]:
        return tuple(
            Move(
                topic=row["topic"],
                partition=row["partition"],
                replicas=tuple(row["replicas"]),
                adding=tuple(row["adding"]),
                removing=tuple(row["removing"]),
            )
            for row in await under_way(self._admin)
        )

    async def _plans(self, problems: list[Problem]) -> tuple[Plan, ...]:
        """The plan that was named, and those of this user that have not ended."""
        named = self._plan
        found: list[Plan | None] = []
        if named is not None:
            found.append(await _or_none("plan", problems, lambda: _named_plan(self._admin, named)))
        for plan_file, file in await in_thread(plans_under_way):
            is_named = named is not None and file.path == default_path(named).absolute()
            if not is_named and self._cluster_id in ("", file.journal.header.cluster_id):
                read = partial(_plan, self._admin, plan_file, file)
                found.append(await _or_none(f"plan {plan_file.name}", problems, read))
        return tuple(plan for plan in found if plan is not None)

    async def offsets(self, keys: Sequence[Key]) -> dict[Key, Offsets]:
        """One request for each leader and kind of offset."""
        cluster = await self._known_cluster()
        asked = by_leader(cluster, [TopicPartition(*key) for key in keys])
        found = await asyncio.gather(*(self._offsets_of(cluster, partitions) for partitions in asked.values()))
        return {key: offsets for each in found for key, offsets in each.items()}

    async def _offsets_of(self, cluster: Cluster, partitions: Sequence[TopicPartition]) -> dict[Key, Offsets]:
        answers = {}
        try:
            async with self._limit, asyncio.timeout(PART_S):
                for name, timestamp in QUESTIONS.items():
                    answers[name] = await list_offsets(self._admin, cluster, partitions, timestamp)
        except OUTSIDE:  # its broker's sign says so; other leaders' partitions are shown
            return {}
        return {
            (one.topic, one.partition): Offsets(**{name: known_offset(of.get(one)) for name, of in answers.items()})
            for one in partitions
        }

    async def group_totals(self, groups: Sequence[str]) -> dict[str, int | None]:
        async def total(group: str) -> int | None:
            try:
                async with self._limit:
                    return (await self.group_lag(group)).total
            except (*OUTSIDE, OperatorError):
                return None

        return dict(zip(groups, await asyncio.gather(*(total(group) for group in groups)), strict=True))

    async def group_lag(self, group: str) -> GroupLag:
        cluster = await self._known_cluster()
        try:
            async with asyncio.timeout(PART_S):
                described, rows = await group_lag(self._admin, cluster, group)
        except click.ClickException as error:
            raise UnknownNameError(error.message) from None
        except TimeoutError:
            raise TimeoutError(f"the coordinator of {group} did not answer within {PART_S:g} s") from None
        return GroupLag(
            group=group,
            state=described.group_state,
            assignor=described.protocol_data,
            total=total_lag(rows),
            rows=tuple(Lag(**row) for row in rows),
        )

    async def predict(self, broker: int, known: Mapping[str, str]) -> Prediction:
        return await predicted(self._admin, broker, {**self._known, **known})

    async def _known_cluster(self) -> Cluster:
        return await self._admin.cluster() if self._cluster is None else self._cluster


async def _or_none(what: str, problems: list[Problem], ask: Callable[[], Awaitable[T]]) -> T | None:
    """The answer; None, and a problem, if there is none within `PART_S`."""
    try:
        async with asyncio.timeout(PART_S):
            return await ask()
    except TimeoutError as error:
        problems.append(Problem(what, str(error) or f"no answer within {PART_S:g} s"))
    except click.ClickException as error:
        problems.append(Problem(what, error.message))
    except (*OUTSIDE, OperatorError) as error:
        problems.append(Problem(what, str(error)))
    return None


def _assembled(found: _Found) -> tuple[tuple[Partition, ...], tuple[Broker, ...], dict[int, Disk]]:
    """The partitions, the brokers and their disks. Pure; of a large cluster it takes a while."""
    parts = [part for topic in found.cluster.topics for part in topic.partitions]
    partitions = tuple(
        Partition(
            topic=topic.name,
            index=part.partition_index,
            leader=part.leader_id,
            epoch=part.leader_epoch,
            replicas=tuple(part.replica_nodes),
            isr=tuple(part.isr_nodes),
            offline=tuple(part.offline_replicas),
        )
        for topic in found.cluster.topics
        for part in sorted(topic.partitions, key=lambda part: part.partition_index)
    )
    brokers = []
    for each in sorted(found.brokers, key=lambda broker: broker.broker_id):
        row = broker_row(each, parts, found.states.get(each.broker_id))
        warming = row["warming"] or {}
        brokers.append(
            Broker(
                id=row["broker"],
                address=row["address"],
                rack=row["rack"],
                is_alive=each.broker_id in found.cluster.brokers,
                is_unreachable=each.broker_id in found.unreachable,
                seen_at_s=found.seen_at_s.get(each.broker_id),
                replicas=row["replicas"],
                leads=row["leads"],
                out_of_sync=row["out_of_sync"],
                failed=row["out_of_service"],
                thin=row["thin"],
                local_bytes=row["local_bytes"],
                warming_bytes_left=warming.get("bytes_left"),
                warming_seconds_left=warming.get("seconds_left"),
            )
        )
    return partitions, tuple(brokers), {broker: _disk(state) for broker, state in found.states.items()}


def _disk(state: LocalState) -> Disk:
    disk: dict[Key, OnDisk] = {}
    for name, size in state.sizes.items():
        warming = state.warming.get(name)
        disk[name.topic, name.partition] = OnDisk(
            size_bytes=size,
            warming_bytes_left=None if warming is None else warming.bytes_left,
            warming_seconds_left=None if warming is None else warming.seconds_left,
            warm_in_ms=state.warm_in_ms.get(name),
            is_out_of_service=name in state.out_of_service,
            tier_error=state.tier_errors.get(name),
        )
    return disk


async def _named_plan(admin: Admin, plan_file: Path) -> Plan:
    """ClickException without a journal, or if it is another cluster's. KafkaError, OSError."""
    file = await in_thread(JournalFile.open, default_path(plan_file))
    plan = await _plan(admin, plan_file, file)
    if plan is None:
        raise click.ClickException(f"{file.path} is of cluster {file.journal.header.cluster_id}, which is another one")
    return plan


async def _plan(admin: Admin, plan_file: Path, file: JournalFile) -> Plan | None:
    """How far a plan is: what `reassign status` counts, wave by wave. None if it is another cluster's.

    KafkaError, OSError.
    """
    journal, header = file.journal, file.journal.header
    cluster = PlanCluster(admin)
    state = await plan_state(cluster, header)
    if cluster.cluster_id != header.cluster_id:
        return None
    waves: dict[int, Counter[Standing]] = {}
    for entry in header.entries:
        if entry.key not in journal.skipped:
            standing = progress_of(entry, header.topic_ids[entry.topic], state)
            waves.setdefault(entry.wave, Counter())[standing] += 1
    return Plan(
        name=plan_file.name,
        doing=doing_text(file, plan_file, is_carried_out=file.is_owned()),
        waves=tuple(
            Wave(
                number,
                standings.total(),
                standings[Standing.DONE],
                {each.name.lower(): standings[each] for each in Standing if standings[each]},
            )
            for number, standings in sorted(waves.items())
        ),
    )
