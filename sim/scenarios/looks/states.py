"""What brokers say that they, and the cluster, are. Nothing changes but a topic's configs.

A topic's configs are set to what they are, once they are shown rightly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ....broker import Broker
from ....protocol import CLUSTER_METADATA_TOPIC, ErrorCode, TopicPartition
from ....protocol.messages.cluster import DescribeClusterRequest, DescribeLogDirsRequest
from ....protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ....protocol.messages.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from ....protocol.messages.topics import ListPartitionReassignmentsRequest
from ....protocol.messages.transactions import DescribeProducersRequest, TopicRequest
from ....protocol.wire import ResourceType
from ...judges.core.clients.looks import wrong_cluster, wrong_directories, wrong_producers
from ...judges.core.truth import ClusterTruth
from .asker import TIMEOUT_S, Asker
from .controllers import configured, describe, wrong_descriptions
from .node_pages import wrong_pages

TIMEOUT_MS: Final = int(TIMEOUT_S * 1000)


class States:
    """`brokers` are those that run, by id; `has_lost`: a topic may have lost something."""

    def __init__(
        self,
        asker: Asker,
        truth: ClusterTruth,
        brokers: Callable[[], Mapping[int, Broker | None]],
        has_lost: Callable[[str], bool],
    ) -> None:
        self._asker = asker
        self._truth = truth
        self._brokers = brokers
        self._has_lost = has_lost

    async def cluster(self) -> list[str]:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        answers = {each: await self._asker.ask(each, request) for each in self._asker.addresses}
        return [
            f"broker {broker_id}: {text}"
            for broker_id, answer in answers.items()
            for text in wrong_cluster(answer, self._truth.image)
        ]

    async def configs(self) -> list[str]:
        """Look at topics, groups and what all brokers have; and set a topic's configs to what they are."""
        resources = configured(self._truth.image)
        wrong = wrong_descriptions((await self._asker.ask_any(describe(resources))).results, resources)
        return [*wrong, *await self._own_configs(), *(await self._set_again() if not wrong else ())]

    async def _own_configs(self) -> list[str]:
        wrong = []
        for broker_id in self._asker.addresses:
            own = DescribeConfigsResource(
                resource_type=ResourceType.BROKER, resource_name=str(broker_id), configuration_keys=("node.id",)
            )
            (result,) = (await self._asker.ask(broker_id, DescribeConfigsRequest(resources=(own,)))).results
            if [(each.name, each.value) for each in result.configs] != [("node.id", str(broker_id))]:
                wrong.append(f"broker {broker_id} describes itself as {result}")
        return wrong

    async def _set_again(self) -> list[str]:
        topic = self._asker.rng.choice([each for _, each in sorted(self._truth.image.topics.items())])
        entries = tuple(
            AlterConfigsRequestAlterableConfig(name=name, value=value) for name, value in topic.configs.items()
        )
        resource = AlterConfigsRequestAlterConfigsResource(
            resource_type=ResourceType.TOPIC, resource_name=topic.name, configs=entries
        )
        (result,) = (
            await self._asker.ask_any(AlterConfigsRequest(resources=(resource,), validate_only=False))
        ).responses
        now = self._truth.image.topics[topic.name].configs
        if result.error_code is not ErrorCode.none or now != topic.configs:
            return [f"{topic.name} was to keep {topic.configs}, {result.error_code.name}: {now}"]
        return []

    async def directories(self) -> list[str]:
        wrong = []
        for broker_id, broker in self._brokers().items():
            answer = await self._asker.ask(broker_id, DescribeLogDirsRequest(topics=None))
            hosted = {} if broker is None else broker.hosted.partitions
            sizes = {name: each.log.state.segments.size_bytes for name, each in hosted.items()}
            wrong += [f"broker {broker_id}: {text}" for text in wrong_directories(answer.results, sizes)]
        return wrong

    async def producers(self) -> list[str]:
        """Ask the leaders of what has lost nothing; the last member of the ISR is who else knows."""
        wrong: list[str] = []
        image, brokers = self._truth.image, self._brokers()
        for topic in image.topics.values():
            for number, partition in topic.partitions.items():
                other = brokers.get(partition.isr[-1]) if partition.isr else None
                if self._has_lost(topic.name) or other is None:
                    continue
                asked = TopicRequest(name=topic.name, partition_indexes=(number,))
                answer = await self._asker.ask(partition.leader, DescribeProducersRequest(topics=(asked,)))
                (found,) = answer.topics[0].partitions
                entries = other.hosted.partitions[TopicPartition(topic.name, number)].log.state.producers.entries
                epochs = {each: (now.producer_epoch, now.last_sequence) for each, now in entries.items()}
                wrong += wrong_producers(f"{topic.name}-{number}", found.active_producers, epochs)
        return wrong

    async def metrics(self) -> list[str]:
        hosts = {broker_id: address.host for broker_id, address in self._asker.addresses.items()}
        return await wrong_pages(hosts, self._truth.image)

    async def quorum(self) -> list[str]:
        asked = DescribeQuorumRequestTopicData(
            topic_name=CLUSTER_METADATA_TOPIC, partitions=(DescribeQuorumRequestPartitionData(partition_index=0),)
        )
        seen = set()
        for broker_id in self._asker.addresses:
            answer = await self._asker.ask(broker_id, DescribeQuorumRequest(topics=(asked,)))
            (found,) = answer.topics[0].partitions
            voters = tuple(sorted(each.replica_id for each in found.current_voters))
            seen.add((answer.error_code, found.error_code, found.leader_id, found.leader_epoch, voters))
        is_one = len(seen) == 1 and all(leader in voters for _, _, leader, _, voters in seen)
        return [] if is_one else [f"the quorum is said to be {sorted(map(str, seen))}"]

    async def reassignments(self) -> list[str]:
        answer = await self._asker.ask_any(ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=None))
        is_none = answer.error_code is ErrorCode.none and not answer.topics
        return [] if is_none else [f"{answer.error_code.name}: {answer.topics}"]
