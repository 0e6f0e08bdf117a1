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
| what cannot be                                      | it is refused, and changes nothing (`mistakes`)             |
| a log of a program's own, and a loss of power       | `own_log`                                                   |
| a group that changes its protocol, twice            | `upgraded_groups`                                           |
| a broker that begins with a ledger snapshot         | `ledger_snapshots`                                          |

All of it is the last that happens in a run: nothing before it is another for it. What is wrong at first is looked at
again: an answer may be older than the metadata by a moment.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from random import Random
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from ....broker import Broker
from ....protocol import CLUSTER_METADATA_TOPIC, OUTSIDE, ErrorCode, TopicPartition
from ....protocol.messages import Request, ResponseT
from ....protocol.messages.cluster import DescribeClusterRequest, DescribeLogDirsRequest
from ....protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ....protocol.messages.consumer_groups import ConsumerGroupDescribeRequest
from ....protocol.messages.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListedGroup, ListGroupsRequest
from ....protocol.messages.offsets import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from ....protocol.messages.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from ....protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    DescribeClientQuotasRequest,
    OpData,
)
from ....protocol.messages.security import (
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ....protocol.messages.share_groups import ShareGroupDescribeRequest
from ....protocol.messages.topics import ListPartitionReassignmentsRequest
from ....protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    TopicRequest,
)
from ....protocol.net import Address, KafkaClient
from ....protocol.wire import ResourceType
from ...judges.core.acknowledged_writes import Anomaly
from ...judges.core.clients.looks import (
    Samples,
    wrong_cluster,
    wrong_directories,
    wrong_metrics,
    wrong_producers,
)
from ...judges.core.truth import ClusterTruth
from ...machine.clock import WallClock
from ..cluster_options import EXPIRY_CHECK_MS, METRICS_PORT
from ..operations.tables import TABLE
from .acls import ACL, of_its_principal
from .controllers import configured, describe, wrong_descriptions
from .many_partitions import ManyPartitions
from .more_looks import Look

GAP_S: Final = 0.5
SETTLED_S: Final = 20.0
"""What is still wrong after this time is wrong: sessions and transactions have expired by then."""
TIMEOUT_S: Final = 4.0
TIMEOUT_MS: Final = int(TIMEOUT_S * 1000)
SCRAPE_S: Final = 5.0
"""A node at rest answers a scrape within this time."""
USER: Final = "looks"
QUOTA: Final = ("request_percentage", 50.0)
SCRAM_SHA_256: Final = 1
ITERATIONS: Final = 4_096
EXPIRES_SHARE: Final = 0.5
AGE_MS: Final = 8 * 24 * 3_600_000
"""More than `offsets.retention.minutes` and `transactional.id.expiration.ms`."""
EMPTY: Final = "Empty"
AT_REST: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})


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
        self._has_lost = has_lost
        self._client = KafkaClient(client_id="looks", random=rng)
        self._rng = rng
        self._clocks = clocks
        self._more = more or {}
        self._expires = rng.random() < EXPIRES_SHARE
        """Whether groups are left to expire."""
        self._listed = 0
        """The groups and transactional ids that were seen."""

    @property
    def looks(self) -> Mapping[str, Look]:
        """What is asked, in this order."""
        return {
            "cluster": self._cluster,
            "configs": self._configs,
            "log directories": self._directories,
            "producers": self._producers,
            "metrics": self._metrics,
            **self._more,
            "many partitions": self._many_partitions,
            "quorum": self._quorum,
            "reassignments": self._reassignments,
            "quotas": self._quotas,
            "credentials": self._credentials,
            "ACLs": self._acls,
            "transactions": self._transactions,
            "groups": self._groups,
        }

    async def anomalies(self) -> list[Anomaly]:
        """Return what is shown wrongly by the first look that finds something: what hangs would hang in each."""
        found: list[Anomaly] = []
        for name, look in self.looks.items():
            found = [Anomaly("wrong look", name, text) for text in await self._settled(look)]
            if found:
                break
        if self._expires and self._listed and not found:
            for clock in self._clocks():
                clock.jump(AGE_MS)
            await asyncio.sleep(EXPIRY_CHECK_MS / 1000)
            found = [Anomaly("wrong look", "expiry", text) for text in await self._settled(self._expired)]
        return found

    async def close(self) -> None:
        await self._client.close()

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

    @property
    def _addresses(self) -> dict[int, Address]:
        return {each.id: Address(each.host, each.port) for each in self._truth.image.brokers.values()}

    async def _ask(self, broker_id: int, request: Request[ResponseT]) -> ResponseT:
        return await self._client.send(self._addresses[broker_id], request, timeout_s=TIMEOUT_S)

    async def _ask_any(self, request: Request[ResponseT]) -> ResponseT:
        return await self._ask(self._rng.choice(sorted(self._addresses)), request)

    # -- what is there ------------------------------------------------------------------------------------------------

    async def _cluster(self) -> list[str]:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        answers = {each: await self._ask(each, request) for each in self._addresses}
        return [
            f"broker {broker_id}: {text}"
            for broker_id, answer in answers.items()
            for text in wrong_cluster(answer, self._truth.image)
        ]

    async def _configs(self) -> list[str]:
        """Look at topics, groups and what all brokers have; and set a topic's configs to what they are."""
        resources = configured(self._truth.image)
        wrong = wrong_descriptions((await self._ask_any(describe(resources))).results, resources)
        return [*wrong, *await self._own_configs(), *(await self._set_again() if not wrong else ())]

    async def _own_configs(self) -> list[str]:
        wrong = []
        for broker_id in self._addresses:
            own = DescribeConfigsResource(
                resource_type=ResourceType.BROKER, resource_name=str(broker_id), configuration_keys=("node.id",)
            )
            (result,) = (await self._ask(broker_id, DescribeConfigsRequest(resources=(own,)))).results
            if [(each.name, each.value) for each in result.configs] != [("node.id", str(broker_id))]:
                wrong.append(f"broker {broker_id} describes itself as {result}")
        return wrong

    async def _set_again(self) -> list[str]:
        topic = self._rng.choice([each for _, each in sorted(self._truth.image.topics.items())])
        entries = tuple(
            AlterConfigsRequestAlterableConfig(name=name, value=value) for name, value in topic.configs.items()
        )
        resource = AlterConfigsRequestAlterConfigsResource(
            resource_type=ResourceType.TOPIC, resource_name=topic.name, configs=entries
        )
        (result,) = (await self._ask_any(AlterConfigsRequest(resources=(resource,), validate_only=False))).responses
        now = self._truth.image.topics[topic.name].configs
        if result.error_code is not ErrorCode.none or now != topic.configs:
            return [f"{topic.name} was to keep {topic.configs}, {result.error_code.name}: {now}"]
        return []

    async def _directories(self) -> list[str]:
        wrong = []
        for broker_id, broker in self._brokers().items():
            answer = await self._ask(broker_id, DescribeLogDirsRequest(topics=None))
            hosted = {} if broker is None else broker.hosted.partitions
            sizes = {name: each.log.state.segments.size_bytes for name, each in hosted.items()}
            wrong += [f"broker {broker_id}: {text}" for text in wrong_directories(answer.results, sizes)]
        return wrong

    async def _producers(self) -> list[str]:
        """Ask the leaders of what has lost nothing; the last member of the ISR is who else knows."""
        wrong: list[str] = []
        image, brokers = self._truth.image, self._brokers()
        for topic in image.topics.values():
            for number, partition in topic.partitions.items():
                other = brokers.get(partition.isr[-1]) if partition.isr else None
                if self._has_lost(topic.name) or other is None:
                    continue
                asked = TopicRequest(name=topic.name, partition_indexes=(number,))
                answer = await self._ask(partition.leader, DescribeProducersRequest(topics=(asked,)))
                (found,) = answer.topics[0].partitions
                entries = other.hosted.partitions[TopicPartition(topic.name, number)].log.state.producers.entries
                epochs = {each: (now.producer_epoch, now.last_sequence) for each, now in entries.items()}
                wrong += wrong_producers(f"{topic.name}-{number}", found.active_producers, epochs)
        return wrong

    async def _metrics(self) -> list[str]:
        hosts = {broker_id: address.host for broker_id, address in self._addresses.items()}
        wrong = [text for host in hosts.values() for text in await _not_ready(host)]
        return wrong or list(wrong_metrics(await _scrape(hosts), self._truth.image))

    async def _many_partitions(self) -> list[str]:
        """Write to, and read from, all partitions that a broker leads and clients may write to."""
        wrong: list[str] = []
        image = self._truth.image
        many = ManyPartitions(self._client, self._rng)
        for broker_id, broker in self._brokers().items():
            hosted = {} if broker is None else broker.hosted.partitions
            ends = {
                name: each.log.state.log_end_offset
                for name, each in hosted.items()
                if each.leadership is not None and not name.topic.startswith("__") and name.topic != TABLE
            }
            if ends:
                found = await many.look(self._addresses[broker_id], image, ends)
                wrong += [f"broker {broker_id}: {text}" for text in found]
        return wrong

    async def _quorum(self) -> list[str]:
        asked = DescribeQuorumRequestTopicData(
            topic_name=CLUSTER_METADATA_TOPIC, partitions=(DescribeQuorumRequestPartitionData(partition_index=0),)
        )
        seen = set()
        for broker_id in self._addresses:
            answer = await self._ask(broker_id, DescribeQuorumRequest(topics=(asked,)))
            (found,) = answer.topics[0].partitions
            voters = tuple(sorted(each.replica_id for each in found.current_voters))
            seen.add((answer.error_code, found.error_code, found.leader_id, found.leader_epoch, voters))
        is_one = len(seen) == 1 and all(leader in voters for _, _, leader, _, voters in seen)
        return [] if is_one else [f"the quorum is said to be {sorted(map(str, seen))}"]

    async def _reassignments(self) -> list[str]:
        answer = await self._ask_any(ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=None))
        is_none = answer.error_code is ErrorCode.none and not answer.topics
        return [] if is_none else [f"{answer.error_code.name}: {answer.topics}"]

    # -- what is changed last -----------------------------------------------------------------------------------------

    async def _quotas(self) -> list[str]:
        key, value = QUOTA
        entity = (("user", USER),)
        wrong = []
        for is_removed in (False, True):
            data = tuple(
                AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity
            )
            entry = AlterClientQuotasRequestEntryData(
                entity=data, ops=(OpData(key=key, value=value, remove=is_removed),)
            )
            answer = await self._ask_any(AlterClientQuotasRequest(entries=(entry,), validate_only=False))
            code = answer.entries[0].error_code
            found = await self._described_quotas()
            known = {tuple(sorted(each)): dict(values) for each, values in self._truth.image.quotas.items()}
            right = known.get(entity) == (None if is_removed else {key: value})
            if code is not ErrorCode.none or found != known or not right:
                wrong.append(f"removed: {is_removed}, {code.name}: {found} is said, {known} is in the metadata")
        return wrong

    async def _described_quotas(self) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
        answer = await self._ask_any(DescribeClientQuotasRequest(components=(), strict=False))
        return {
            tuple(sorted((each.entity_type, each.entity_name) for each in entry.entity)): {
                each.key: each.value for each in entry.values
            }
            for entry in answer.entries or ()
        }

    async def _credentials(self) -> list[str]:
        upsertion = ScramCredentialUpsertion(
            name=USER,
            mechanism=SCRAM_SHA_256,
            iterations=ITERATIONS,
            salt=self._rng.randbytes(16),
            salted_password=self._rng.randbytes(32),
        )
        deletion = ScramCredentialDeletion(name=USER, mechanism=SCRAM_SHA_256)
        wrong = []
        for deletions, upsertions in (((), (upsertion,)), ((deletion,), ())):
            request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
            (result,) = (await self._ask_any(request)).results
            answer = await self._ask_any(DescribeUserScramCredentialsRequest(users=None))
            found = {
                each.user: [(info.mechanism, info.iterations) for info in each.credential_infos]
                for each in answer.results
            }
            right = {USER: [(SCRAM_SHA_256, ITERATIONS)]} if upsertions else {}
            if result.error_code is not ErrorCode.none or found != right:
                wrong.append(f"{result.error_code.name}: {found} is said, {right} was set")
        return wrong

    async def _acls(self) -> list[str]:
        """Create an ACL and delete it again; without an authorizer nothing of that is possible."""
        brokers = [each for each in self._brokers().values() if each is not None]
        has_authorizer = any(each.config.authorizer.is_configured for each in brokers)
        code = ErrorCode.none if has_authorizer else ErrorCode.security_disabled
        wrong = []
        (created,) = (await self._ask_any(CreateAclsRequest(creations=(ACL,)))).results
        for step in ("created", "deleted"):
            found = await self._ask_any(DescribeAclsRequest(**of_its_principal()))
            principals = [acl.principal for resource in found.resources for acl in resource.acls]
            known = [acl.principal for _, acl in self._truth.image.acls.items()]
            right = [ACL.principal] if has_authorizer and step == "created" else []
            if (found.error_code, principals, known) != (code, right, right):
                wrong.append(f"{step}: {found.error_code.name}, ACLs of {principals}, in the metadata of {known}")
            if step == "created":
                deletion = DeleteAclsRequest(filters=(DeleteAclsFilter(**of_its_principal()),))
                (deleted,) = (await self._ask_any(deletion)).filter_results
                codes = (created.error_code, deleted.error_code, len(deleted.matching_acls))
                if codes != (code, code, len(right)):
                    wrong.append(f"creation, deletion and how many were deleted: {codes}")
        return wrong

    # -- coordinators -------------------------------------------------------------------------------------------------

    async def _transactions(self) -> list[str]:
        """Each id is listed and described by one coordinator, and none is in the middle of something."""
        listed: Counter[str] = Counter()
        wrong = []
        for broker_id in self._addresses:
            answer = await self._ask(broker_id, ListTransactionsRequest())
            states = {each.transactional_id: each for each in answer.transaction_states}
            listed.update(states.keys())
            self._listed += len(states)
            if answer.error_code is not ErrorCode.none:
                wrong.append(f"broker {broker_id} lists no transactions: {answer.error_code.name}")
            if not states:
                continue
            described = await self._ask(broker_id, DescribeTransactionsRequest(transactional_ids=tuple(states)))
            for each in described.transaction_states:
                known = states[each.transactional_id]
                said = (each.error_code, each.transaction_state, each.producer_id, len(each.topics))
                if said != (ErrorCode.none, known.transaction_state, known.producer_id, 0) or (
                    each.transaction_state not in AT_REST
                ):
                    wrong.append(f"broker {broker_id}: {each} was listed as {known}")
        twice = [name for name, count in listed.items() if count > 1]
        return [*wrong, *(f"{name} has several coordinators" for name in twice)]

    async def _groups(self) -> list[str]:
        """Each group is at one coordinator; once it has no members its offsets, and then the group, can be deleted."""
        wrong, listed = [], Counter[str]()
        for broker_id in self._addresses:
            answer = await self._ask(broker_id, ListGroupsRequest())
            listed.update(each.group_id for each in answer.groups)
            self._listed += len(answer.groups)
            if answer.error_code is not ErrorCode.none:
                wrong.append(f"broker {broker_id} lists no groups: {answer.error_code.name}")
            for group in answer.groups:
                wrong += [f"broker {broker_id}: {text}" for text in await self._wrong_group(broker_id, group)]
        wrong += [f"{name} has several coordinators" for name, count in listed.items() if count > 1]
        return wrong

    async def _wrong_group(self, broker_id: int, group: ListedGroup) -> list[str]:
        code, state, members = await self._described(broker_id, group)
        if (code, state) != (ErrorCode.none, group.group_state):
            return [f"{group} is described as {state}: {code.name}"]
        if (state == EMPTY) != (members == 0):
            return [f"{group} is {state} with {members} members"]
        if state != EMPTY:
            return [f"{group} still has {members} members"]
        if self._expires:
            return []
        offsets = await self._delete_offsets(broker_id, group)
        answer = await self._ask(broker_id, DeleteGroupsRequest(groups_names=(group.group_id,)))
        deleted = answer.results[0].error_code
        left = await self._ask(broker_id, ListGroupsRequest())
        if deleted is not ErrorCode.none or any(each.group_id == group.group_id for each in left.groups):
            return [*offsets, f"{group} is not deleted: {deleted.name}"]
        return offsets

    async def _expired(self) -> list[str]:
        """Nothing is left that has not been used for days. Share groups stay."""
        left = []
        for broker_id in self._addresses:
            groups = (await self._ask(broker_id, ListGroupsRequest(types_filter=("classic", "consumer")))).groups
            transactions = (await self._ask(broker_id, ListTransactionsRequest())).transaction_states
            left += [f"broker {broker_id} still has {each}" for each in (*groups, *transactions)]
        return left

    async def _described(self, broker_id: int, group: ListedGroup) -> tuple[ErrorCode, str, int]:
        """Return the error, the state and the number of members of a group of any kind."""
        names = (group.group_id,)
        if group.group_type == "classic":
            (found,) = (await self._ask(broker_id, DescribeGroupsRequest(groups=names))).groups
            return found.error_code, found.group_state, len(found.members)
        if group.group_type == "consumer":
            consumers = ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=True)
            (of_consumers,) = (await self._ask(broker_id, consumers)).groups
            return of_consumers.error_code, of_consumers.group_state, len(of_consumers.members)
        shares = ShareGroupDescribeRequest(group_ids=names, include_authorized_operations=True)
        (of_sharers,) = (await self._ask(broker_id, shares)).groups
        return of_sharers.error_code, of_sharers.group_state, len(of_sharers.members)

    async def _delete_offsets(self, broker_id: int, group: ListedGroup) -> list[str]:
        """Delete the group's offsets of every topic, where its kind has some."""
        if group.group_type == "share":
            return []
        request = OffsetDeleteRequest(group_id=group.group_id, topics=tuple(self._all_partitions()))
        answer = await self._ask(broker_id, request)
        codes = {each.error_code for topic in answer.topics for each in topic.partitions}
        if (answer.error_code, codes) == (ErrorCode.none, {ErrorCode.none}):
            return []
        return [f"the offsets of {group} are not deleted: {answer.error_code.name}, {codes}"]

    def _all_partitions(self) -> Iterator[OffsetDeleteRequestTopic]:
        for topic in self._truth.image.topics.values():
            numbers = tuple(OffsetDeleteRequestPartition(partition_index=number) for number in topic.partitions)
            yield OffsetDeleteRequestTopic(name=topic.name, partitions=numbers)


async def _get(host: str, path: str) -> tuple[int, str]:
    """Return the status and the body of one path. OSError, TimeoutError."""
    async with asyncio.timeout(SCRAPE_S):
        reader, writer = await asyncio.open_connection(host, METRICS_PORT)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
    return int(head.split(b" ", 2)[1]), body.decode()


async def _scrape(hosts: Mapping[int, str]) -> dict[int, Samples]:
    """Return all samples of these brokers, each by its name and labels. OSError if one does not give them."""
    return {broker_id: await _scraped(host) for broker_id, host in hosts.items()}


async def _scraped(host: str) -> Samples:
    status, text = await _get(host, "/metrics")
    if status != HTTPStatus.OK:
        raise OSError(f"{host} answers a scrape with {status}")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def _not_ready(host: str) -> list[str]:
    """Return what a node that serves says beside being alive and ready."""
    answers = {path: await _get(host, path) for path in ("/health", "/ready")}
    return [
        f"{host}{path} answers {status}: {body.strip()}"
        for path, (status, body) in answers.items()
        if status != HTTPStatus.OK
    ]
