"""The rows of the grammar of clusters. A new feature that operators or clients use adds one here, and the judge that
would notice.

| row                    | judged by                                                                                  |
|------------------------|--------------------------------------------------------------------------------------------|
| topics, partitions     | `Administrator.anomalies`: what was acknowledged is there; nothing is left of what was     |
|                        | deleted (`cluster_state`); what was sent is in that incarnation (`Administrator.lost_from`) |
| reassign, cancel       | the replicas that were accepted last are there; those of a cancelled one stay              |
| elect, roll            | `HandOversJudge`, and all judges of leaders                                                |
| configs, features      | all judges of replicas and of the tier; configs reach every log (`cluster_state`)          |
| pause copying          | what is not in the tier stays local (`CoverageJudge`); once it is copied again, all is     |
| load                   | `SideLoads`: five codecs, acks=all, 1 and 0                                                |
| find by time           | `SideLoads.find`                                                                           |
| create, write table    | the last value of every key survives the cleaner (`judges.core.clients.compacted`)         |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, Final

from ....light_dataclass import dataclass
from ....protocol import TopicIdPartition
from ....protocol.net import Address
from ...judges.core.truth import ClusterTruth
from ...machine.chance import Chance
from ..administrator import SIDE_TOPICS, Administrator
from .grammar import Row
from .side_loads import SideLoads
from .tables import Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """Who acts in a cluster. `roll` restarts all brokers, one after the other."""

    administrator: Administrator
    loads: SideLoads
    tables: Tables
    brokers: Sequence[int]
    roll: Callable[[Random], Coroutine[Any, Any, None]]

    @classmethod
    def made(
        cls,
        administrator: Administrator,
        truth: ClusterTruth,
        addresses: tuple[Address, ...],
        chance: Chance,
        *,
        brokers: Sequence[int],
        deleted_end: Callable[[TopicIdPartition], int],
        has_lost: Callable[[TopicIdPartition], bool],
        roll: Callable[[Random], Coroutine[Any, Any, None]],
    ) -> Crew:
        """Make those that have clients of their own."""
        loads = SideLoads(
            administrator, truth, addresses, chance("side loads"), deleted_end=deleted_end, has_lost=has_lost
        )
        tables = Tables(administrator, truth, addresses, chance("table"))
        return cls(administrator=administrator, loads=loads, tables=tables, brokers=brokers, roll=roll)

    @property
    def changed(self) -> Counter[str]:
        """What has happened, for the report."""
        return +Counter({"offsets found by time": self.loads.found, "batches of a table": self.tables.batches})

    async def close(self) -> None:
        await self.loads.close()
        await self.tables.close()


def _has_side_topic(crew: Crew) -> bool:
    return bool(crew.administrator.side_topics)


def _lacks_side_topic(crew: Crew) -> bool:
    return len(crew.administrator.side_topics) < len(SIDE_TOPICS)


ROWS: Final[Sequence[Row[Crew]]] = (
    Row(
        name="create topic", weight=4, is_possible=_lacks_side_topic, act=lambda crew, rng: crew.administrator.come(rng)
    ),
    Row(name="delete topic", weight=2, is_possible=_has_side_topic, act=lambda crew, rng: crew.administrator.go(rng)),
    Row(
        name="replace topic",
        weight=2,
        is_possible=_has_side_topic,
        act=lambda crew, rng: crew.administrator.replace(rng),
    ),
    Row(
        name="add partition", weight=2, is_possible=_has_side_topic, act=lambda crew, rng: crew.administrator.grow(rng)
    ),
    Row(name="reassign", weight=4, act=lambda crew, rng: crew.administrator.reassign(rng)),
    Row(
        name="cancel reassignment",
        weight=6,
        is_possible=lambda crew: bool(crew.administrator.reassigning),
        act=lambda crew, rng: crew.administrator.cancel(rng),
    ),
    Row(name="elect preferred", act=lambda crew, rng: crew.administrator.elect(rng)),
    Row(name="roll", act=lambda crew, rng: crew.roll(rng), is_beside=True),
    Row(name="switch bootstrap", weight=2, act=lambda crew, rng: crew.administrator.switch(rng)),
    Row(name="switch feature", weight=2, act=lambda crew, rng: crew.administrator.switch_feature(rng)),
    Row(
        name="configure", weight=2, is_possible=_has_side_topic, act=lambda crew, rng: crew.administrator.configure(rng)
    ),
    Row(
        name="pause copying",
        weight=2,
        is_possible=_has_side_topic,
        act=lambda crew, rng: crew.administrator.pause_copying(rng),
    ),
    Row(
        name="load",
        weight=3,
        is_possible=_has_side_topic,
        act=lambda crew, rng: crew.loads.load(rng),
        is_beside=True,
    ),
    Row(
        name="find by time",
        weight=3,
        is_possible=lambda crew: bool(crew.loads.places),
        act=lambda crew, rng: crew.loads.find(rng),
        is_beside=True,
    ),
    Row(
        name="create table",
        weight=3,
        is_possible=lambda crew: crew.tables.is_idle and not crew.tables.is_there,
        act=lambda crew, rng: crew.tables.create(rng.sample(list(crew.brokers), len(crew.brokers))),
        is_beside=True,
    ),
    Row(
        name="write table",
        weight=4,
        is_possible=lambda crew: crew.tables.is_idle and crew.tables.is_there,
        act=lambda crew, rng: crew.tables.write(rng),
        is_beside=True,
    ),
)
