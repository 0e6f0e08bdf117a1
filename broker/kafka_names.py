"""Kafka's names for the metrics that Apache Kafka has too: boards and alerts made for it find them here.

Kafka's own are JMX beans. The names are what Prometheus's JMX exporter makes of those with the rules in common use:
domain, type and name in lower case, `_total` for the count of a rate. Only totals are here, no series of partitions.
Each follows the family that it repeats. docs/metrics.md has the beans' names beside ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.metrics_core import Metric

_REPLICA_MANAGER: Final = "kafka_server_replicamanager_"
_TOPICS: Final = "kafka_server_brokertopicmetrics_"
_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_SHARE_SESSIONS: Final = "kafka_server_sharesessioncache_"
_SHARE_PARTITIONS: Final = "kafka_server_sharepartitionmetrics_"
_RAFT: Final = "kafka_server_raftmetrics_"

KAFKA_NAMES: Final[Mapping[str, str]] = {
    "tierfetch_partitions": f"{_REPLICA_MANAGER}partitioncount",
    "tierfetch_leaders": f"{_REPLICA_MANAGER}leadercount",
    "tierfetch_under_replicated_partitions": f"{_REPLICA_MANAGER}underreplicatedpartitions",
    "tierfetch_under_min_isr_partitions": f"{_REPLICA_MANAGER}underminisrpartitioncount",
    "tierfetch_offline_replicas": f"{_REPLICA_MANAGER}offlinereplicacount",
    "tierfetch_produced_bytes": f"{_TOPICS}bytesin",
    "tierfetch_produced_records": f"{_TOPICS}messagesin",
    "tierfetch_consumed_bytes": f"{_TOPICS}bytesout",
    "tierfetch_replicated_bytes": f"{_TOPICS}replicationbytesout",
    "tierfetch_remote_copied_segments": f"{_TOPICS}remotecopyrequests",
    "tierfetch_remote_copied_bytes": f"{_TOPICS}remotecopybytes",
    "tierfetch_remote_copy_pending_bytes": f"{_TOPICS}remotecopylagbytes",
    "tierfetch_remote_copy_pending_segments": f"{_TOPICS}remotecopylagsegments",
    "tierfetch_remote_fetch_requests": f"{_TOPICS}remotefetchrequests",
    "tierfetch_remote_fetched_bytes": f"{_TOPICS}remotefetchbytes",
    "tierfetch_remote_fetch_errors": f"{_TOPICS}remotefetcherrors",
    "tierfetch_share_sessions": f"{_SHARE_SESSIONS}sharesessionscount",
    "tierfetch_share_session_partitions": f"{_SHARE_SESSIONS}sharepartitionscount",
    "tierfetch_share_in_flight_records": f"{_SHARE_PARTITIONS}inflightmessagecount",
    "tierfetch_share_in_flight_batches": f"{_SHARE_PARTITIONS}inflightbatchcount",
    "tierfetch_share_lock_timeouts": f"{_SHARE_PARTITIONS}acquisitionlocktimeout",
    "tierfetch_share_record_acknowledgements": "kafka_server_sharegroupmetrics_recordacknowledgements",
    "tierfetch_controller_active": f"{_CONTROLLER}activecontrollercount",
    "tierfetch_controller_active_brokers": f"{_CONTROLLER}activebrokercount",
    "tierfetch_controller_fenced_brokers": f"{_CONTROLLER}fencedbrokercount",
    "tierfetch_controller_topics": f"{_CONTROLLER}globaltopiccount",
    "tierfetch_controller_partitions": f"{_CONTROLLER}globalpartitioncount",
    "tierfetch_controller_offline_partitions": f"{_CONTROLLER}offlinepartitionscount",
    "tierfetch_controller_preferred_replica_imbalance": f"{_CONTROLLER}preferredreplicaimbalancecount",
    "tierfetch_controller_last_applied_offset": f"{_CONTROLLER}lastappliedrecordoffset",
    "tierfetch_raft_current_leader": f"{_RAFT}current_leader",
    "tierfetch_raft_current_epoch": f"{_RAFT}current_epoch",
    "tierfetch_raft_current_vote": f"{_RAFT}current_vote",
    "tierfetch_raft_log_end_offset": f"{_RAFT}log_end_offset",
    "tierfetch_raft_log_end_epoch": f"{_RAFT}log_end_epoch",
    "tierfetch_raft_high_watermark": f"{_RAFT}high_watermark",
}
"""Our families and Kafka's; `_total` of counters is added by the format."""


def with_kafka_names(families: Iterable[Metric]) -> Iterator[Metric]:
    """Yield the families, each that Kafka has too a second time under Kafka's name."""
    for family in families:
        yield family
        name = KAFKA_NAMES.get(family.name)
        if name is not None:
            again = Metric(name, family.documentation, family.type)
            for sample in family.samples:
                again.samples.append(sample._replace(name=name + sample.name.removeprefix(family.name)))
            yield again
