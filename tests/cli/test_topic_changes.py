"""`topics alter`: what differs is decided before anything is sent, and all of it is checked before any is done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import click
import pytest
from click.testing import CliRunner

from tierfetch.cli.admin.topic_changes import ConfigChange, TopicChange, plan_change, send_change
from tierfetch.cli.cluster_session import Cluster, ListedTopic
from tierfetch.cli.main import cli
from tierfetch.protocol import ErrorCode, KafkaError
from tierfetch.protocol.messages.cluster import MetadataResponsePartition
from tierfetch.protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from tierfetch.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from tierfetch.testing import InProcessCluster

OWN = {"retention.ms": "1000", "segment.bytes": "1048576"}
NOTHING: Mapping[str, str] = {}


def plan(partitions: int | None = None, sets: Mapping[str, str] = NOTHING, unsets: Sequence[str] = ()) -> TopicChange:
    return plan_change("t", 4, OWN, partitions=partitions, sets=sets, unsets=unsets)


def test_only_what_differs_is_a_change() -> None:
    assert plan(4, {"retention.ms": "1000"}, ["max.message.bytes"]).is_empty
    changed = plan(6, {"retention.ms": "5", "cleanup.policy": "compact"}, ["segment.bytes"])
    assert changed.configs == (
        ConfigChange("retention.ms", "1000", "5"),
        ConfigChange("cleanup.policy", None, "compact"),
        ConfigChange("segment.bytes", "1048576", None),
    )
    assert changed.lines() == [
        "partitions: 4 -> 6",
        "retention.ms: 1000 -> 5",
        "cleanup.policy: (default) -> compact",
        "segment.bytes: 1048576 -> (default)",
    ]


def test_partitions_are_removed_by_shrink_alone() -> None:
    with pytest.raises(click.UsageError, match=r"has 4 partitions: alter only adds; tierfetch topics shrink t --to 3"):
        plan(3)


def test_a_key_is_not_set_and_unset() -> None:
    with pytest.raises(click.UsageError, match=r"--set and --unset both name retention.ms"):
        plan(None, {"retention.ms": "5"}, ["retention.ms"])


class Admin:
    """A cluster that keeps what it was asked; the n-th request is refused."""

    def __init__(self, refused: int | None = None) -> None:
        self.asked: list[tuple[str, bool]] = []
        self._refused = refused

    async def cluster(self, names: Sequence[str]) -> Cluster:
        parts = (MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=(1,), isr_nodes=(1,)),) * 6
        return Cluster({}, {}, (ListedTopic("t", None, parts),))

    async def send(self, request: object) -> object:
        is_config = isinstance(request, IncrementalAlterConfigsRequest)
        assert is_config or isinstance(request, CreatePartitionsRequest)
        code = ErrorCode.policy_violation if len(self.asked) == self._refused else ErrorCode.none
        self.asked.append(("configs" if is_config else "partitions", request.validate_only))
        if is_config:
            answer = IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
                error_code=code, error_message="no", resource_type=2, resource_name="t"
            )
            return IncrementalAlterConfigsResponse(responses=(answer,))
        return CreatePartitionsResponse(
            results=(CreatePartitionsTopicResult(name="t", error_code=code, error_message="no"),)
        )


CHECKS = [("configs", True), ("partitions", True)]
WORK = [("configs", False), ("partitions", False)]


async def alter(admin: Admin, *, dry_run: bool = False) -> None:
    sets = {"retention.ms": "5"}
    await send_change(admin, plan(6, sets), sets, [], validate_only=dry_run)


@pytest.mark.parametrize(("dry_run", "asked"), [(True, CHECKS), (False, CHECKS + WORK)])
async def test_all_is_checked_before_anything_is_done(dry_run: bool, asked: list[tuple[str, bool]]) -> None:
    admin = Admin()
    await alter(admin, dry_run=dry_run)
    assert admin.asked == asked


@pytest.mark.parametrize("refused", [0, 1])
async def test_what_is_refused_changes_nothing(refused: int) -> None:
    admin = Admin(refused)
    with pytest.raises(KafkaError, match="no"):
        await alter(admin)
    assert admin.asked == CHECKS[: refused + 1]


async def test_what_was_done_before_a_late_refusal_is_said() -> None:
    with pytest.raises(click.ClickException, match="no; the configs were changed, the partitions were not"):
        await alter(Admin(3))


@pytest.mark.slow
@pytest.mark.tierfetch(brokers=1, tier=None)
def test_a_topic_is_altered(tierfetch_cluster: InProcessCluster) -> None:
    tierfetch_cluster.create_topic("t", 2)

    def altered(*words: str) -> dict[str, object]:
        arguments = ["topics", "alter", "t", "--bootstrap", tierfetch_cluster.bootstrap, "--json", *words]
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 0, result.output
        return json.loads(result.output)

    words = ["--partitions", "4", "--set", "retention.ms=1000"]
    expected = {
        "topic": "t",
        "partitions": {"before": 2, "after": 4},
        "configs": [{"name": "retention.ms", "before": None, "after": "1000"}],
    }
    assert altered(*words, "--dry-run") == {**expected, "dry_run": True}
    assert altered(*words) == {**expected, "dry_run": False}
    assert altered(*words)["configs"] == []
    assert altered("--unset", "retention.ms")["configs"] == [{"name": "retention.ms", "before": "1000", "after": None}]
