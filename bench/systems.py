"""The two systems under test behind one interface: tierfetch and Apache Kafka, each as a cluster on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rich.console import Console

from tierfetch.cli.local import Child, LocalCluster, LocalQuorum, TierSettings

from .lab.jars import KafkaUnavailableError, kafka_jars
from .lab.kafka import CONTROLLER_ID, KafkaCluster


class Cluster(Protocol):
    """What a benchmark does with a cluster. Brokers are 1, 2, ..."""

    @property
    def bootstrap_servers(self) -> str: ...

    def port(self, node: int, /) -> int: ...

    def host(self, node: int, /) -> str: ...

    def process(self, node: int, /) -> Child: ...

    def data_directory(self, node: int, /) -> Path: ...

    def log_file(self, node: int, /) -> Path: ...

    def start(self, node: int, /) -> float: ...

    def wait_serving(self, node: int, /) -> None: ...

    def stop(self, node: int, /) -> None: ...

    def kill(self, node: int, /) -> None: ...

    def wipe(self, node: int, /) -> None: ...


@dataclass(frozen=True, slots=True)
class System:
    """A name, and how to run a cluster: `run(base, brokers, tiered, configs)`.

    `enable_option` are the broker configs that let an empty follower bootstrap from the tier.
    """

    name: str
    run: Callable[[Path, int, bool, Mapping[str, str]], AbstractContextManager[Cluster]]
    set_broker_config: Callable[[Cluster, int, Mapping[str, str]], None]


OPTION = {"follower.fetch.last.tiered.offset.enable": "true"}


@contextmanager
def run_tierfetch(
    base: Path, brokers: int, tier: TierSettings | None, configs: Mapping[str, str]
) -> Iterator[LocalCluster]:
    """Run tierfetch over any tier, with one controller, as Apache Kafka runs."""
    with LocalQuorum(base, 1, first_id=CONTROLLER_ID) as quorum:
        controllers = quorum.bootstrap_controllers
        with LocalCluster(base, range(1, brokers + 1), tier=tier, configs=configs, controllers=controllers) as cluster:
            yield cluster


def _run_tierfetch(
    base: Path, brokers: int, tiered: bool, configs: Mapping[str, str]
) -> AbstractContextManager[Cluster]:
    tier = TierSettings("local", {"dir": str(base / "tier")}) if tiered else None
    return run_tierfetch(base, brokers, tier, configs)


def _run_kafka(base: Path, brokers: int, tiered: bool, configs: Mapping[str, str]) -> AbstractContextManager[Cluster]:
    return KafkaCluster(base, range(1, brokers + 1), tiered=tiered, broker_configs=configs)


def _set_tierfetch(cluster: Cluster, broker: int, configs: Mapping[str, str]) -> None:
    assert isinstance(cluster, LocalCluster)
    cluster.broker_configs[broker] = dict(configs)


def _set_kafka(cluster: Cluster, broker: int, configs: Mapping[str, str]) -> None:
    assert isinstance(cluster, KafkaCluster)
    cluster.node_configs[broker] = dict(configs)


TIERFETCH = System("tierfetch", _run_tierfetch, _set_tierfetch)
KAFKA = System("kafka", _run_kafka, _set_kafka)


def can_run_kafka(console: Console) -> bool:
    """Return whether Apache Kafka can be run here; if not, the console says why."""
    try:
        kafka_jars()
    except KafkaUnavailableError as error:
        console.print(f"[yellow]Apache Kafka is left out: {error}[/]")
        return False
    return True


def systems_of(against: str, console: Console) -> list[System]:
    """Return what `--against kafka` or `--against nothing` measures, as far as it runs here."""
    return [TIERFETCH, KAFKA] if against == "kafka" and can_run_kafka(console) else [TIERFETCH]
