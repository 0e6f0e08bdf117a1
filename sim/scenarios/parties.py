"""The groups of a cluster: workers of a group of consumers, and members of a share group, where a seed has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from ...protocol import TopicPartition
from ...protocol.net import Address
from ..judges.core.acknowledged_writes import Anomaly, FinalLog
from ..judges.core.clients.ownership import OwnershipJudge
from ..judges.core.judge import Judge
from ..machine.world import World
from .administrator import GROUP_VERSION, SHARE_VERSION, Administrator
from .cluster_clients import Work
from .cluster_options import ClusterOptions
from .sharing.sharers import GROUP as SHARE_GROUP
from .sharing.sharers import TOPICS as SHARE_TOPICS
from .sharing.sharers import Sharers
from .workers.consumers import GROUP_TIMEOUTS_MS
from .workers.workforce import TOPICS as WORK_TOPICS
from .workers.workforce import Workforce
from .workload import Shared

PARTY_TOPICS: Final = tuple(dict.fromkeys((*WORK_TOPICS, *SHARE_TOPICS)))


class Parties:
    """`topic_id` gives the id of a topic by its name, `has_lost` says whether it may have lost something, `hosts` are
    those of brokers by id.
    """

    def __init__(
        self,
        world: World,
        options: ClusterOptions,
        addresses: Sequence[Address],
        shared: Shared,
        *,
        topic_id: Callable[[str], UUID],
        has_lost: Callable[[str], bool],
        hosts: Mapping[int, str],
    ) -> None:
        self._options = options
        self._has_lost = has_lost
        self._shared = shared
        self._workforce = Workforce(
            world, addresses, shared, options.workers, topic_id, is_classic=options.classic_group
        )
        self._sharers = Sharers(
            world,
            addresses,
            shared,
            options.sharers,
            topic_id=topic_id,
            has_lost=has_lost,
            hosts=hosts,
            renews=options.renews,
            is_late=options.late_shares,
        )
        self._all: list[Workforce | Sharers] = [each for each in (self._workforce, self._sharers) if each.count]

    def judges(self) -> list[Judge]:
        """Return those that look at what members are answered."""
        inputs = tuple(self._workforce.inputs)
        ownership = OwnershipJudge(inputs, self._has_lost, self._shared.now_ms, *GROUP_TIMEOUTS_MS)
        return [ownership, *([self._sharers.judge] if self._sharers.count else [])]

    @property
    def partitions(self) -> list[TopicPartition]:
        """All that are read in the end."""
        return [partition for party in self._all for partition in party.partitions]

    @property
    def changed(self) -> Counter[str]:
        """What has happened, for the report."""
        return self._workforce.changed + self._sharers.changed

    def works(self) -> list[tuple[str, str, Work]]:
        """Name, host, and what the client process does."""
        return [work for party in self._all for work in party.works()]

    async def prepare(
        self, administrator: Administrator, brokers: Collection[int], administer: Callable[[Work], Awaitable[None]]
    ) -> None:
        """Raise features, configure groups, create topics."""
        if not self._options.classic_group:
            await administer(partial(administrator.raise_feature, GROUP_VERSION))
        if self._sharers.count:
            if not self._options.late_shares:
                await administer(partial(administrator.raise_feature, SHARE_VERSION))
            await administer(partial(administrator.configure_group, SHARE_GROUP, self._sharers.group_configs))
        for party in self._all:
            for name, assignments, configs in party.topics(brokers):
                await administer(partial(administrator.create_topic, name, assignments, configs))

    async def anomalies(self, logs: dict[str, FinalLog], reader: str) -> list[Anomaly]:
        """What must not be, once everything is done. `reader` is the read-committed one that has read all outputs."""
        found = self._sharers.anomalies(logs) if self._sharers.count else []
        if self._workforce.count and not any(map(self._has_lost, WORK_TOPICS)):
            found += self._workforce.anomalies(logs, await self._workforce.committed(), reader)
        return found
