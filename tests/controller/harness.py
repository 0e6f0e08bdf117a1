"""A controller with a clock and a log, without a quorum: every appended record is committed at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

from tierfetch.controller.core.config import SUPPORTED_FEATURES, ControllerConfig, FeatureRange
from tierfetch.controller.core.machine import ControllerCore
from tierfetch.controller.core.state import ControllerResult, Moment
from tierfetch.controller.image.image import MetadataImage
from tierfetch.controller.image.registrations import PartitionKey, PartitionRegistration
from tierfetch.controller.image.snapshot import snapshot_records
from tierfetch.controller.records import (
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    decode_record,
    encode_record,
)
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import write_response
from tierfetch.protocol.errors import ErrorCode
from tierfetch.sim.judges.core.metadata_image import check_image
from tierfetch.tests.messages import plain, request_of

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
CONFIG = ControllerConfig(cluster_id=CLUSTER_ID, node_id=100)
JAVA_FEATURES = {name: item for name, item in SUPPORTED_FEATURES.items() if not name.startswith("tierfetch")} | {
    "metadata.version": FeatureRange(7, 30)
}
OK = ErrorCode.none


def directory(broker_id: int, number: int = 0) -> UUID:
    return UUID(int=(1 << 64) + broker_id * 1000 + number)


OnChange = Callable[[PartitionKey, PartitionRegistration, PartitionRegistration], None]
"""Hears of each change of a partition: what was, what is."""


class Harness:
    """Ask it as a broker or an operator would. Each answer is written as bytes in the version that was asked."""

    def __init__(self, config: ControllerConfig = CONFIG, *, seed: int = 1, metadata_version: int = 30) -> None:
        self.config = config
        self.seed = seed
        self.now_ms = 1_000_000
        self.log: list[bytes] = []
        self.epochs: dict[int, int] = {}
        self.on_change: OnChange = lambda *_: None
        self.core = ControllerCore(config, random.Random(seed))
        self.append([FeatureLevelRecord(name="metadata.version", feature_level=metadata_version)])
        self.core.become_active(self.now_ms)

    @property
    def image(self) -> MetadataImage:
        return self.core.state.image

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, len(self.log))

    def append(self, records: Iterable[MetadataRecord]) -> None:
        for record in records:
            value = encode_record(record)
            self.log.append(value)
            again = decode_record(value).record
            if isinstance(again, PartitionChangeRecord):
                key = PartitionKey(again.topic_id, again.partition_id)
                before = self.image.registration(key)
                self.core.replay(again, len(self.log) - 1)
                self.on_change(key, before, self.image.registration(key))
            else:
                self.core.replay(again, len(self.log) - 1)

    def ask(self, api: ApiKey, values: dict[str, Any], version: int | None = None) -> dict[str, Any]:
        """The plain response; its records are in the image by then."""
        version = api.max_version if version is None else version
        request = request_of(api, values, version)
        before = list(snapshot_records(self.image)) if len(self.image.topics) < 20 else None
        result = self.core.handle(request, self.moment)
        if before is not None:
            assert list(snapshot_records(self.image)) == before, "a decision changed the image"
        self.take(result)
        write_response(api, version, 1, result.response)
        answer: dict[str, Any] = plain(result.response)
        return answer

    def take(self, result: ControllerResult[object]) -> None:
        assert result.base_offset in (None, len(self.log)), (result.base_offset, len(self.log))
        self.append(result.records)
        self.core.written(result, len(self.log) - 1)
        check_image(self.image)

    def failover(self) -> None:
        """Another controller takes over: it has the log, and nothing else."""
        self.core = ControllerCore(self.config, random.Random(self.seed + len(self.log)))
        for offset, value in enumerate(self.log):
            self.core.replay(decode_record(value).record, offset)
        self.core.become_active(self.now_ms)
        self.run_timers()

    def sleep(self, duration_ms: int) -> None:
        """Time passes, and timers fire."""
        self.now_ms += duration_ms
        self.run_timers()

    def run_timers(self) -> None:
        for _ in range(1000):
            result = self.core.fire(self.moment)
            if result is None:
                return
            self.take(result)
        raise AssertionError("timers never come to rest")

    # Brokers.

    def register(self, broker_id: int, *, version: int = 4, **values: Any) -> dict[str, Any]:
        features = values.pop("features", SUPPORTED_FEATURES)
        given = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": UUID(int=(2 << 64) + broker_id * 1000 + len(self.log)),
            "listeners": [
                {"name": "PLAINTEXT", "host": f"host{broker_id}", "port": 9092, "security_protocol": 0},
            ],
            "features": [
                {"name": name, "min_supported_version": item.min_level, "max_supported_version": item.max_level}
                for name, item in sorted(features.items())
            ],
            "rack": None,
            "log_dirs": [directory(broker_id)],
            "previous_broker_epoch": -1,
        } | values
        response = self.ask(ApiKey.BROKER_REGISTRATION, given, version)
        if response["error_code"] is OK:
            self.epochs[broker_id] = response["broker_epoch"]
        return response

    def heartbeat(self, broker_id: int, **values: Any) -> dict[str, Any]:
        given = {
            "broker_id": broker_id,
            "broker_epoch": self.epochs[broker_id],
            "current_metadata_offset": len(self.log),
            "want_fence": False,
            "want_shut_down": False,
        } | values
        return self.ask(ApiKey.BROKER_HEARTBEAT, given)

    def start(self, *broker_ids: int, **values: Any) -> None:
        """Register and unfence brokers."""
        for broker_id in broker_ids:
            response = self.register(broker_id, **values)
            assert response["error_code"] is OK, response
            assert self.heartbeat(broker_id)["is_fenced"] is False

    def beat(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.heartbeat(broker_id)

    def expire(self, *silent: int, alive: Sequence[int] = ()) -> None:
        """The sessions of `silent` end; the others go on."""
        self.now_ms += self.config.session_timeout_ms - 1
        self.beat(*alive)
        self.sleep(1)
        assert all(self.image.brokers[broker_id].fenced for broker_id in silent)

    # Topics.

    def create(self, name: str, *assignments: Sequence[int], configs: dict[str, str] | None = None) -> UUID:
        response = self.ask(
            ApiKey.CREATE_TOPICS,
            {
                "topics": [
                    {
                        "name": name,
                        "num_partitions": -1,
                        "replication_factor": -1,
                        "assignments": [
                            {"partition_index": number, "broker_ids": list(replicas)}
                            for number, replicas in enumerate(assignments)
                        ],
                        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
                    }
                ],
                "timeout_ms": 1000,
            },
        )
        (result,) = response["topics"]
        assert result["error_code"] is OK, result
        return result["topic_id"]

    def key(self, name: str, partition: int = 0) -> PartitionKey:
        return PartitionKey(self.image.topic_ids[name], partition)

    def partition(self, name: str, partition: int = 0) -> PartitionRegistration:
        return self.image.registration(self.key(name, partition))

    def alter_isr(
        self, name: str, isr: Sequence[int], *, partition: int = 0, version: int = 3, **values: Any
    ) -> dict[str, Any]:
        """AlterPartition by the leader, with the epochs that hold now unless given."""
        now = self.partition(name, partition)
        broker_id = values.pop("broker_id", now.leader)
        broker_epoch = values.pop("broker_epoch", self.epochs.get(broker_id, -1))
        members = values.pop("members", None) or [
            {"broker_id": member, "broker_epoch": self.epochs.get(member, -1)} for member in isr
        ]
        item = {
            "partition_index": partition,
            "leader_epoch": now.leader_epoch,
            "partition_epoch": now.partition_epoch,
            "leader_recovery_state": 0,
        } | values
        item |= {"new_isr_with_epochs": members} if version >= 3 else {"new_isr": list(isr)}
        topic_id = item.pop("topic_id", self.image.topic_ids[name])
        response = self.ask(
            ApiKey.ALTER_PARTITION,
            {
                "broker_id": broker_id,
                "broker_epoch": broker_epoch,
                "topics": [{"topic_id": topic_id, "partitions": [item]}],
            },
            version,
        )
        if response["error_code"] is not OK:
            return response
        return response["topics"][0]["partitions"][0]

    def reassign(self, name: str, replicas: Sequence[int] | None, *, partition: int = 0) -> dict[str, Any]:
        response = self.ask(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            {
                "timeout_ms": 1000,
                "topics": [
                    {"name": name, "partitions": [{"partition_index": partition, "replicas": replicas}]},
                ],
            },
        )
        return response["responses"][0]["partitions"][0]

    def elect(self, name: str, election_type: int, *, partition: int = 0) -> dict[str, Any]:
        response = self.ask(
            ApiKey.ELECT_LEADERS,
            {
                "election_type": election_type,
                "timeout_ms": 1000,
                "topic_partitions": [{"topic": name, "partitions": [partition]}],
            },
        )
        return response["replica_election_results"][0]["partition_result"][0]

    def configure(self, resource_type: int, name: str, **changes: str | None) -> dict[str, Any]:
        """Keys with underscores in place of dots; None deletes."""
        response = self.ask(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            {
                "validate_only": False,
                "resources": [
                    {
                        "resource_type": resource_type,
                        "resource_name": name,
                        "configs": [
                            {
                                "name": key.replace("_", "."),
                                "config_operation": 1 if value is None else 0,
                                "value": value,
                            }
                            for key, value in changes.items()
                        ],
                    }
                ],
            },
        )
        return response["responses"][0]

    def set_feature(self, name: str, level: int, upgrade_type: int = 1) -> dict[str, Any]:
        return self.ask(
            ApiKey.UPDATE_FEATURES,
            {
                "timeout_ms": 1000,
                "feature_updates": [{"feature": name, "max_version_level": level, "upgrade_type": upgrade_type}],
            },
        )


def same(one: MetadataImage, other: MetadataImage) -> bool:
    """Whether two images say the same, indexes included."""
    return (
        list(snapshot_records(one)) == list(snapshot_records(other))
        and one.indexes.as_sets() == other.indexes.as_sets()
    )
