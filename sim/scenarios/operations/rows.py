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
| switch unclean         | `ClusterTruth`: an unclean election only where the config says so at that offset, and no   |
|                        | member of the ISR can lead; `LossJudge`: what the one elected has not may be lost          |
| share offsets          | `ShareOffsets.check`: each coordinator says what was acknowledged last                     |
| raise share.version    | all judges of share groups; members wait for it                                            |
| raise metadata.version | all controllers have one image; brokers ask what the level allows                          |
| create, write table    | the last value of every key survives the cleaner (`judges.core.clients.compacted`)         |
| voters                 | all judges of the quorum (`operations.voters`); `ClusterVoters.unsettled`, `anomalies`     |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import field
from random import Random
from typing import Any, Final

from ....light_dataclass import dataclass
from ....protocol import TopicIdPartition
from ....protocol.net import Address
from ...judges.core.acknowledged_writes import Anomaly
from ...judges.core.truth import ClusterTruth
from ...machine.chance import Chance
from ...machine.clock import WallClock
from ..administrator import SIDE_TOPICS, Administrator
from ..looks.final_looks import FinalLooks
from ..looks.more_looks import Look
from .grammar import Row
from .share_offsets import ShareOffsets
from .side_loads import SideLoads
from .tables import Tables
from .voters import VOTER_ROWS, VoterOperator

VOTERS_FACTOR: Final = 2
"""There are many more rows beside those of voters in a cluster than in a quorum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """Who acts in a cluster. `roll` restarts all brokers, one after the other. `unclean_topics`: those of which unclean
    elections are allowed at times, beside side topics; none where they never are. `rises`: features that begin lower,
    and their highest levels. `voters`: who changes those of the quorum, if they change.
    """

    administrator: Administrator
    loads: SideLoads
    tables: Tables
    brokers: Sequence[int]
    roll: Callable[[Random], Coroutine[Any, Any, None]]
    unclean_topics: Sequence[str] = ()
    rises: Mapping[str, int] = field(default_factory=dict)
    share_offsets: ShareOffsets | None = None
    voters: VoterOperator | None = None
    looks: FinalLooks

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
        unclean_topics: Sequence[str] = (),
        rises: Mapping[str, int] | None = None,
        share_offsets: ShareOffsets | None = None,
        voters: VoterOperator | None = None,
        clocks: Callable[[], Sequence[WallClock]] = tuple,
        more_looks: Mapping[str, Look] | None = None,
    ) -> Crew:
        """Make those that have clients of their own."""
        loads = SideLoads(
            administrator, truth, addresses, chance("side loads"), deleted_end=deleted_end, has_lost=has_lost
        )
        tables = Tables(administrator, truth, addresses, chance("table"))

        def may_lack(name: str) -> bool:
            topic = truth.image.topics[name]
            return any(has_lost(topic.id_partition(number)) for number in topic.partitions)

        return cls(
            administrator=administrator,
            loads=loads,
            tables=tables,
            brokers=brokers,
            roll=roll,
            unclean_topics=unclean_topics,
            rises=rises or {},
            share_offsets=share_offsets,
            voters=voters,
            looks=FinalLooks(truth, administrator.brokers, chance("looks"), may_lack, clocks, more_looks),
        )

    @property
    def changed(self) -> Counter[str]:
        """What has happened, for the report."""
        changers = [each for each in (self.share_offsets, self.voters) if each is not None]
        others = sum((each.changed for each in changers), Counter[str]())
        return others + Counter({"offsets found by time": self.loads.found, "batches of a table": self.tables.batches})

    async def looks_at_last(self) -> list[Anomaly]:
        """Ask what operators and clients ask of a cluster at rest; return what is shown wrongly."""
        return [*await self.loads.wrong_largest(), *await self.looks.anomalies()]

    async def close(self) -> None:
        if self.share_offsets is not None:
            await self.share_offsets.close()
        if self.voters is not None:
            await self.voters.close()
        await self.loads.close()
        await self.tables.close()
        await self.looks.close()


def _has_side_topic(crew: Crew) -> bool:
    return bool(crew.administrator.side_topics)


async def _switch_unclean(crew: Crew, rng: Random) -> None:
    await crew.administrator.switch_unclean(rng.choice([*crew.unclean_topics, *crew.administrator.side_topics]))


def _offsets_of(crew: Crew) -> ShareOffsets:
    assert crew.share_offsets is not None, "no share group"
    return crew.share_offsets


def _has_offsets(crew: Crew) -> bool:
    return crew.share_offsets is not None and bool(crew.share_offsets.known)


def _raises(name: str) -> Row[Crew]:
    """Return the row of a feature that begins at a lower level."""
    return Row(
        name=f"raise {name}",
        weight=4,
        is_possible=lambda crew: crew.administrator.level_of(name) < crew.rises.get(name, 0),
        act=lambda crew, rng: crew.administrator.raise_to(name, crew.rises[name], rng),
    )


def _voters_of(crew: Crew) -> VoterOperator:
    assert crew.voters is not None, "the voters do not change"
    return crew.voters


def _of_voters(row: Row[VoterOperator]) -> Row[Crew]:
    """Return a row of quorums as one of clusters whose voters change."""
    return Row(
        name=row.name,
        weight=VOTERS_FACTOR * row.weight,
        is_possible=lambda crew: crew.voters is not None and row.is_possible(crew.voters),
        act=lambda crew, rng: row.act(_voters_of(crew), rng),
    )


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
        name="switch unclean",
        weight=8,
        is_possible=lambda crew: bool(crew.unclean_topics),
        act=_switch_unclean,
    ),
    Row(
        name="alter share offsets",
        weight=6,
        is_possible=lambda crew: crew.share_offsets is not None,
        act=lambda crew, rng: _offsets_of(crew).alter(rng),
    ),
    Row(
        name="delete share offsets",
        weight=2,
        is_possible=_has_offsets,
        act=lambda crew, _: _offsets_of(crew).delete(),
    ),
    Row(
        name="look at share offsets",
        weight=6,
        is_possible=_has_offsets,
        act=lambda crew, _: _offsets_of(crew).look(),
    ),
    _raises("share.version"),
    _raises("metadata.version"),
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
    *map(_of_voters, VOTER_ROWS),
)
