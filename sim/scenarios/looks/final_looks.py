"""What operators ask of a cluster at rest, and what they change last: each answer is compared with what is known of it.

| asked                                               | what must hold                                              |
|-----------------------------------------------------|-------------------------------------------------------------|
| DescribeCluster, -Configs, -LogDirs, -Producers     | `judges.core.clients.looks`                                 |
| `/metrics`, `/health`, `/ready` of each broker      | the same; and all are alive and ready                       |
| Produce to and Fetch from many partitions at once   | `many_partitions`                                           |
| DescribeQuorum                                      | all brokers name the same leader, epoch and voters          |
| ListPartitionReassignments                          | none is left                                                |
| DescribeClientQuotas, AlterClientQuotas             | what the metadata has; a quota that is set is there, and is |
|                                                     | absent once it is removed                                   |
| AlterUserScramCredentials, Describe-                | the same of a user's credentials                            |
| CreateAcls, DescribeAcls, DeleteAcls                | the same of an ACL; without an authorizer all are refused   |
| AlterConfigs with the configs of a topic            | they stay                                                   |
| ListTransactions, DescribeTransactions              | every id is at one coordinator, at rest, and the same twice |
| ListGroups, DescribeGroups and those of other kinds | every group is at one coordinator, in the state listed      |
| OffsetDelete, DeleteGroups                          | offsets, then the group, go once it has no members          |
| nothing, while the clocks say that days have passed | the same, and no transactional id is left                   |
| DescribeConfigs of each controller                  | the same as of a broker (`controllers`)                     |
| the tier alone, and a follower's copy               | `copies`                                                    |
| mistakes of operators                               | each is refused, and changes nothing (`mistakes`)           |
| a log of a program's own, and a loss of power       | `own_log`                                                   |
| a group that changes its protocol, twice            | `upgraded_groups`                                           |
| a broker that begins with a ledger snapshot         | `ledger_snapshots`                                          |

All of it happens last in a run, so that nothing before it changes. What is wrong at first is looked at
again: an answer may be older than the metadata by a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from ....broker import Broker
from ....protocol import OUTSIDE
from ...judges.core.acknowledged_writes import Anomaly
from ...judges.core.truth import ClusterTruth
from ...machine.clock import WallClock
from ..cluster_options import EXPIRY_CHECK_MS
from ..operations.tables import TABLE
from .asker import Asker
from .changes import Changes
from .coordinated import Coordinated
from .many_partitions import ManyPartitions
from .more_looks import Look
from .states import States

GAP_S: Final = 0.5
SETTLED_S: Final = 20.0
"""What is still wrong after this time is wrong: sessions and transactions have expired by then."""
AGE_MS: Final = 8 * 24 * 3_600_000
"""More than `offsets.retention.minutes` and `transactional.id.expiration.ms`."""


class FinalLooks:
    """`brokers` are those that run, by id. `has_lost`: a topic may have lost something, and so may its coordinators.
    `more` are looks that need more of the world, by name.
    """

    def __init__(
        self,
        truth: ClusterTruth,
        brokers: Callable[[], Mapping[int, Broker | None]],
        rng: Random,
        has_lost: Callable[[str], bool],
        clocks: Callable[[], Sequence[WallClock]],
        more: Mapping[str, Look] | None = None,
    ) -> None:
        self._truth = truth
        self._brokers = brokers
        self._clocks = clocks
        self._more = more or {}
        self._asker = Asker(truth, "looks", rng)
        self._states = States(self._asker, truth, brokers, has_lost)
        self._changes = Changes(self._asker, truth, brokers)
        self._coordinated = Coordinated(self._asker, truth)

    @property
    def looks(self) -> Mapping[str, Look]:
        """What is asked, in this order."""
        states, changes = self._states, self._changes
        return {
            "cluster": states.cluster,
            "configs": states.configs,
            "log directories": states.directories,
            "producers": states.producers,
            "metrics": states.metrics,
            **self._more,
            "many partitions": self._many_partitions,
            "quorum": states.quorum,
            "reassignments": states.reassignments,
            "quotas": changes.quotas,
            "credentials": changes.credentials,
            "ACLs": changes.acls,
            "transactions": self._coordinated.transactions,
            "groups": self._coordinated.groups,
        }

    async def anomalies(self) -> list[Anomaly]:
        """Return what is shown wrongly by the first look that finds something: what hangs would hang in each."""
        found: list[Anomaly] = []
        for name, look in self.looks.items():
            found = [Anomaly("wrong look", name, text) for text in await self._settled(look)]
            if found:
                break
        if self._coordinated.expires and self._coordinated.listed and not found:
            for clock in self._clocks():
                clock.jump(AGE_MS)
            await asyncio.sleep(EXPIRY_CHECK_MS / 1000)
            found = [Anomaly("wrong look", "expiry", text) for text in await self._settled(self._coordinated.expired)]
        return found

    async def close(self) -> None:
        await self._asker.close()

    async def _settled(self, look: Look) -> list[str]:
        """Return what is wrong however often it is looked at."""
        loop = asyncio.get_running_loop()
        settled_s = loop.time() + SETTLED_S
        while True:
            try:
                wrong = await look()
            except OUTSIDE as error:
                wrong = [f"{type(error).__name__}: {error}"]
            if not wrong or loop.time() >= settled_s:
                return wrong
            await asyncio.sleep(GAP_S)

    async def _many_partitions(self) -> list[str]:
        """Write to, and read from, all partitions that a broker leads and clients may write to."""
        wrong: list[str] = []
        image = self._truth.image
        many = ManyPartitions(self._asker.client, self._asker.rng)
        for broker_id, broker in self._brokers().items():
            hosted = {} if broker is None else broker.hosted.partitions
            ends = {
                name: each.log.state.log_end_offset
                for name, each in hosted.items()
                if each.leadership is not None and not name.topic.startswith("__") and name.topic != TABLE
            }
            if ends:
                found = await many.look(self._asker.addresses[broker_id], image, ends)
                wrong += [f"broker {broker_id}: {text}" for text in found]
        return wrong
