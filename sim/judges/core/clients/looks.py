"""What operators are shown of a cluster at rest, compared with its metadata. Pure: answers in, what is wrong out.

| look            | wrong if                                                                                       |
|-----------------|------------------------------------------------------------------------------------------------|
| DescribeCluster | it names other brokers, or another cluster                                                     |
| DescribeConfigs | a config that was set has another value, or another source; or one that was not set has its    |
| DescribeLogDirs | a replica is in no directory, or in two, or moves, or is out of service, or has another size   |
| DescribeProducers | a producer has an open transaction, or another epoch or sequence than a follower knows       |
| metrics         | numbers of partitions, leaders, ISRs, epochs and offsets are not those of the metadata, or not |
|                 | the same for all replicas; something is offline, under-replicated, or waits for the tier       |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from .....broker.cluster import ClusterImage
from .....protocol import ErrorCode, TopicPartition
from .....protocol.messages.cluster import DescribeClusterResponse, DescribeLogDirsResult
from .....protocol.messages.configs import DescribeConfigsResult
from .....protocol.messages.transactions import ProducerState
from .....protocol.wire import ConfigSource, ResourceType

Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]
"""The values of metrics by their names and sorted labels."""
NO_SEQUENCE = -1
NOTHING = (
    "tierfetch_under_replicated_partitions",
    "tierfetch_under_min_isr_partitions",
    "tierfetch_offline_replicas",
    "tierfetch_directory_moves",
    "tierfetch_remote_copy_pending_segments",
    "tierfetch_remote_copy_held_up_partitions",
    "tierfetch_remote_log_metadata_unready",
    "tierfetch_bootstraps_waiting",
)
"""What is 0 in a cluster that is at rest, and whole."""
SOURCES = {
    ResourceType.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ResourceType.BROKER: ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    ResourceType.GROUP: ConfigSource.DYNAMIC_GROUP_CONFIG,
}


def wrong_cluster(answer: DescribeClusterResponse, image: ClusterImage) -> Iterator[str]:
    named = {each.broker_id: (each.host, each.port) for each in answer.brokers}
    right = {each.id: (each.host, each.port) for each in image.brokers.values()}
    if (answer.error_code, answer.cluster_id, named) != (ErrorCode.none, image.cluster_id, right):
        yield f"{answer.cluster_id} has brokers {named}, not {right} of {image.cluster_id}"


def wrong_configs(result: DescribeConfigsResult, configs: Mapping[str, str]) -> Iterator[str]:
    """Compare what is said of a topic, a group, or all brokers with the configs that were set."""
    kind = ResourceType(result.resource_type)
    where = f"{kind.name} {result.resource_name!r}"
    if result.error_code is not ErrorCode.none:
        yield f"{where}: {result.error_code.name}"
        return
    own = {each.name: each.value for each in result.configs if each.config_source == SOURCES[kind]}
    if own != configs:
        differing = sorted({name for name, _ in own.items() ^ configs.items()})
        yield f"{where}: {differing} are {[own.get(name) for name in differing]}, not what was set"
    for config in result.configs:
        synonyms = [(each.name, each.value, each.source) for each in config.synonyms]
        if synonyms and synonyms[0][1:] != (config.value, config.config_source):
            yield f"{where}: {config.name} is {config.value} by {config.config_source}, its synonyms are {synonyms}"


def wrong_directories(results: Iterable[DescribeLogDirsResult], sizes: Mapping[TopicPartition, int]) -> Iterator[str]:
    """Compare what one broker says with the sizes of the replicas that it hosts."""
    found: Counter[TopicPartition] = Counter()
    for directory in results:
        if directory.error_code is not ErrorCode.none or directory.usable_bytes > directory.total_bytes:
            yield f"{directory.log_dir}: {directory.error_code.name}, {directory.usable_bytes} bytes are usable"
        for topic in directory.topics:
            for each in topic.partitions:
                name = TopicPartition(topic.name, each.partition_index)
                found[name] += 1
                said = (each.partition_size, each.offset_lag, each.is_future_key, each.is_out_of_service)
                if said != (sizes.get(name), 0, False, False):
                    yield f"{name} in {directory.log_dir}: {each}; its size is {sizes.get(name)}"
    if found != Counter(sizes.keys()):
        yield f"the directories have {sorted(map(str, found.elements()))}, hosted are {sorted(map(str, sizes))}"


def wrong_producers(
    where: str, producers: Iterable[ProducerState], epochs: Mapping[int, tuple[int, int]]
) -> Iterator[str]:
    """Compare what a leader says with the epoch and last sequence of each producer as another replica knows them; of
    one whose batches have expired a replica may know less.
    """
    producers = list(producers)
    for each in producers:
        epoch, last_sequence = epochs.get(each.producer_id, (each.producer_epoch, NO_SEQUENCE))
        is_same = each.last_sequence == last_sequence or NO_SEQUENCE in (each.last_sequence, last_sequence)
        if each.producer_epoch != epoch or not is_same:
            yield f"{where}: the leader has {each}, another replica epoch {epoch} and sequence {last_sequence}"
    opened = {
        each.producer_id: each.current_txn_start_offset for each in producers if each.current_txn_start_offset >= 0
    }
    if opened:
        yield f"{where}: transactions are open: {opened}"


def wrong_metrics(scrapes: Mapping[int, Samples], image: ClusterImage) -> Iterator[str]:
    """Compare the metrics of all brokers with the metadata, and with each other."""
    for broker_id, samples in scrapes.items():
        hosted = image.hosted_by(broker_id).values()
        right = dict.fromkeys(NOTHING, 0) | {
            "tierfetch_partitions": len(hosted),
            "tierfetch_leaders": sum(each.leader == broker_id for each in hosted),
        }
        for name, value in right.items():
            if (stated := samples.get((name, ()))) != value:
                yield f"broker {broker_id}: {name} is {stated}, expected was {value}"
    for topic in image.topics.values():
        for number, partition in topic.partitions.items():
            labels = (("partition", str(number)), ("topic", topic.name))
            replicas = {each: scrapes.get(each, {}) for each in partition.replicas}
            right_of: dict[str, dict[int, float]] = {
                "tierfetch_leader_epoch": dict.fromkeys(replicas, partition.leader_epoch),
                "tierfetch_is_leader": {each: each == partition.leader for each in replicas},
                "tierfetch_isr_size": {partition.leader: len(partition.isr)},
            }
            for name, by_broker in right_of.items():
                found = {each: samples[name, labels] for each, samples in replicas.items() if (name, labels) in samples}
                if found != by_broker:
                    yield f"{topic.name}-{number}: {name} is {found} by broker, expected was {by_broker}"
            ends = {
                each: (
                    samples.get(("tierfetch_log_end_offset", labels)),
                    samples.get(("tierfetch_high_watermark", labels)),
                )
                for each, samples in replicas.items()
            }
            if len({end for pair in ends.values() for end in pair}) != 1:
                yield f"{topic.name}-{number}: log end offsets and high watermarks are {ends} by broker"
