"""`tierfetch topics alter`: what it changes of a topic, decided before anything is sent.

The cluster checks both requests (`validate_only`) before either is carried out, so that a wrong config leaves the
partitions alone. Then configs come first: new partitions begin with them. If the second request fails all the same, the
error says what has been changed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Final

import click

from ...light_dataclass import dataclass
from ...protocol import OUTSIDE, configs_of
from ...protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from ...protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from ...protocol.wire import ConfigSource, ResourceType
from ..cluster_session import Admin, check
from .near_keys import check_removals, suggesting_keys

TIMEOUT_MS: Final = 30_000
SEEN_S_MAX: Final = 5.0
SEEN_LOOK_S: Final = 0.05
_SET, _DELETE = 0, 1


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A config before and after; `after` is None where the topic has none of its own any longer."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class TopicChange:
    """What differs. `partitions_after` equals `partitions_before` where no partition is added."""

    topic: str
    partitions_before: int
    partitions_after: int
    configs: tuple[ConfigChange, ...]

    @property
    def adds_partitions(self) -> bool:
        return self.partitions_after != self.partitions_before

    @property
    def is_empty(self) -> bool:
        return not self.adds_partitions and not self.configs

    def lines(self) -> list[str]:
        """Return one line for each difference."""
        lines = [f"partitions: {self.partitions_before} -> {self.partitions_after}"] if self.adds_partitions else []
        return lines + [f"{each.name}: {_shown(each.before)} -> {_shown(each.after)}" for each in self.configs]

    def as_json(self) -> dict[str, object]:
        return {
            "topic": self.topic,
            "partitions": {"before": self.partitions_before, "after": self.partitions_after},
            "configs": [{"name": each.name, "before": each.before, "after": each.after} for each in self.configs],
        }


def _shown(value: str | None) -> str:
    return "(default)" if value is None else value


def plan_change(
    topic: str,
    partitions_before: int,
    own: Mapping[str, str],
    *,
    partitions: int | None,
    sets: Mapping[str, str],
    unsets: Sequence[str],
) -> TopicChange:
    """Return what differs from the topic as it is. UsageError for what cannot be meant. `own`: its own configs."""
    both = sorted(set(sets) & set(unsets))
    if both:
        raise click.UsageError(f"--set and --unset both name {', '.join(both)}")
    if partitions is not None and partitions < partitions_before:
        raise click.UsageError(
            f"topic {topic} has {partitions_before} partitions: alter only adds; tierfetch topics shrink {topic} --to"
            f" {partitions} removes the last ones with their records"
        )
    configs = [ConfigChange(key, own.get(key), value) for key, value in sets.items() if own.get(key) != value]
    configs += [ConfigChange(key, own[key], None) for key in unsets if key in own]
    return TopicChange(topic, partitions_before, partitions or partitions_before, tuple(configs))


async def read_topic(admin: Admin, topic: str, unsets: Sequence[str]) -> tuple[int, dict[str, str]]:
    """Return the number of partitions and the topic's own configs. KafkaError if it does not exist, ClickException if
    the cluster does not know one of the configs to unset.
    """
    (listed,) = (await admin.cluster([topic])).topics
    (result,) = (await admin.send(configs_of(ResourceType.TOPIC, [(topic, None)]))).results
    check(result, f"configs of {topic}")
    check_removals(ResourceType.TOPIC, unsets, {entry.name for entry in result.configs})
    own = {
        entry.name: entry.value or ""
        for entry in result.configs
        if entry.config_source == ConfigSource.DYNAMIC_TOPIC_CONFIG
    }
    return len(listed.partitions), own


async def send_change(
    admin: Admin, change: TopicChange, sets: Mapping[str, str], unsets: Sequence[str], *, validate_only: bool
) -> None:
    """Have the cluster check the change, and carry it out unless `validate_only`. KafkaError."""
    wanted = [(key, _SET, value) for key, value in sets.items()] + [(key, _DELETE, None) for key in unsets]
    await _send_configs(admin, change.topic, wanted, validate_only=True)
    await _send_partitions(admin, change, validate_only=True)
    if validate_only:
        return
    await _send_configs(admin, change.topic, wanted, validate_only=False)
    try:
        await _send_partitions(admin, change, validate_only=False)
    except OUTSIDE as error:
        done = "the configs were changed, the partitions were not" if wanted else "nothing was changed"
        raise click.ClickException(f"{error}; {done}") from None
    await _wait_seen(admin, change)


async def _wait_seen(admin: Admin, change: TopicChange) -> None:
    """Wait until a broker's metadata have the new partitions, so that the next command sees them; not for long."""
    deadline_s = time.monotonic() + SEEN_S_MAX
    while change.adds_partitions and time.monotonic() < deadline_s:
        (listed,) = (await admin.cluster([change.topic])).topics
        if len(listed.partitions) >= change.partitions_after:
            return
        await asyncio.sleep(SEEN_LOOK_S)


async def _send_configs(
    admin: Admin, topic: str, wanted: Sequence[tuple[str, int, str | None]], *, validate_only: bool
) -> None:
    if not wanted:
        return
    configs = tuple(
        IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in wanted
    )
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=ResourceType.TOPIC, resource_name=topic, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)
    (result,) = (await admin.send(request)).responses
    with suggesting_keys(ResourceType.TOPIC, [key for key, _, _ in wanted]):
        check(result, f"configs of {topic}")


async def _send_partitions(admin: Admin, change: TopicChange, *, validate_only: bool) -> None:
    if not change.adds_partitions:
        return
    topic = CreatePartitionsTopic(name=change.topic, count=change.partitions_after, assignments=None)
    request = CreatePartitionsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS, validate_only=validate_only)
    (result,) = (await admin.send(request)).results
    check(result, f"topic {change.topic}")
