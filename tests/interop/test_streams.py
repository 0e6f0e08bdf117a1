"""Kafka Streams counts words exactly once (`exactly_once_v2`) while brokers and the application are killed.

Every count is a record of the target, and the state is in a changelog: the committed counts of a word are 1, 2, 3, ...,
or something was done twice or not at all.
"""

from __future__ import annotations

import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from pathlib import Path

import confluent_kafka
import pytest

from tierfetch.bench.lab.jars import KafkaUnavailableError, streams_jars
from tierfetch.bench.lab.kafka import SHORT_LIVED_JVM
from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import Processes, poll
from tierfetch.tests.interop.clients import TIMEOUT_S
from tierfetch.tests.process import connecting
from tierfetch.tests.process.clients import create_topic
from tierfetch.tests.process.test_cluster_command import tierfetch

pytestmark = [pytest.mark.plaintext, pytest.mark.usefixtures("jshell")]

SOURCE_FILE = Path(__file__).parent / "foreign" / "streams" / "WordCount.java"
BROKERS = (1, 2, 3)
PARTITIONS = 3
ROUND = 150
"""The lines between two faults, two words each."""
WORDS = [f"word-{number}" for number in range(17)]
SETTINGS = {
    "num.stream.threads": "2",
    "commit.interval.ms": "100",
    "replication.factor": "3",
    "transaction.timeout.ms": "5000",
    "consumer.session.timeout.ms": "6000",
    "consumer.heartbeat.interval.ms": "500",
}
"""The session timeout is the shortest that brokers take."""


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the compiled application."""
    directory = tmp_path_factory.mktemp("classes")
    try:
        jars = streams_jars()
    except KafkaUnavailableError as reason:
        pytest.skip(str(reason))
    subprocess.run(["javac", "-d", str(directory), "-cp", f"{jars}/*", str(SOURCE_FILE)], check=True, timeout=TIMEOUT_S)
    return directory


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    configs = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000", "min.insync.replicas": "2"}
    with LocalCluster(tmp_path / "cluster", BROKERS, configs=configs) as running:
        yield running


class Application:
    """Two processes of the application, each with a state directory of its own."""

    def __init__(self, base: Path, classes: Path, servers: str) -> None:
        self._base, self._classes, self._servers = base, classes, servers
        self._processes = Processes()

    def start(self, number: int, state: str, **more: str) -> None:
        settings = [f"{key}={value}" for key, value in (SETTINGS | more).items()]
        class_path = f"{self._classes}:{streams_jars()}/*"
        arguments = (self._servers, str(self._base / state), "lines", "counts", *settings)
        command = ["java", "-Xmx256m", *SHORT_LIVED_JVM, "-cp", class_path, "WordCount", *arguments]
        self._processes.start(number, command, self._output(number))

    def kill(self, number: int) -> None:
        assert self._processes[number].poll() is None, self.outputs()
        self._processes.kill(number)

    def stop(self, number: int) -> None:
        assert self._processes[number].poll() is None, self.outputs()
        self._processes.stop(number)

    def kill_all(self) -> None:
        self._processes.kill_all()

    def outputs(self) -> str:
        files = [path for path in (self._output(number) for number in (1, 2)) if path.exists()]
        return "\n".join(path.read_text(errors="replace")[-3000:] for path in files)

    def _output(self, number: int) -> Path:
        return self._base / f"application-{number}.log"


class Counts:
    """A consumer of the committed counts, from the beginning."""

    def __init__(self, servers: str) -> None:
        self._consumer = confluent_kafka.Consumer(
            {
                **connecting.librdkafka(servers),
                "group.id": "counts",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        start = confluent_kafka.OFFSET_BEGINNING
        places = [confluent_kafka.TopicPartition("counts", number, start) for number in range(PARTITIONS)]
        self._consumer.assign(places)
        self.of_words: dict[str, list[int]] = defaultdict(list)

    def wait(self, count: int, application: Application) -> None:
        """Return once so many have been read. The counts of each word must follow one another."""
        for _ in poll(
            TIMEOUT_S, lambda: f"{count} counts, of which {self.total} are there\n{application.outputs()}", 0
        ):
            for message in self._consumer.consume(500, 0.1):
                if message.error() is None:
                    key, value = message.key(), message.value()
                    assert key is not None
                    assert value is not None
                    counts = self.of_words[key.decode()]
                    counts.append(int(value))
                    assert counts[-1] == len(counts), f"{key!r}: {counts[-5:]} after {len(counts) - 1} counts"
            if self.total >= count:
                return

    @property
    def total(self) -> int:
        return sum(map(len, self.of_words.values()))

    def close(self) -> None:
        self._consumer.close()


def produce(servers: str, lines: Iterable[bytes]) -> None:
    """Return once all replicas in sync have each line, once."""
    producer = confluent_kafka.Producer({**connecting.librdkafka(servers), "enable.idempotence": True, "linger.ms": 5})
    errors: list[object] = []
    for number, line in enumerate(lines):
        place = number % PARTITIONS
        producer.produce("lines", line, partition=place, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert set(errors) == {None}


@pytest.mark.timeout(300)
def test_words_are_counted_exactly_once_while_everything_is_killed(
    tmp_path: Path, classes: Path, cluster: LocalCluster
) -> None:
    servers = cluster.bootstrap_servers
    tierfetch(servers, "features", "set", "transaction.version", "2")
    for topic in ("lines", "counts"):
        create_topic(servers, topic, partitions=PARTITIONS, replicas=3)
    application, counts = Application(tmp_path, classes, servers), Counts(servers)
    words, written = cycle(WORDS), Counter[str]()

    def write_and_wait_for_half() -> None:
        before = written.total()
        lines = [list(islice(words, 2)) for _ in range(ROUND)]
        produce(servers, [" ".join(line).encode() for line in lines])
        written.update(word for line in lines for word in line)
        counts.wait(before + ROUND, application)

    try:
        application.start(1, "state-1")
        application.start(2, "state-2")
        write_and_wait_for_half()
        cluster.kill(BROKERS[0])
        write_and_wait_for_half()
        cluster.start(BROKERS[0])
        application.kill(1)  # its successor has its state, and so its transactional ids
        application.start(1, "state-1")
        cluster.wait_serving(BROKERS[0])
        application.kill(2)  # its successor has nothing of it: what it left open ends by its timeout
        application.start(2, "state-3")
        write_and_wait_for_half()
        cluster.stop(BROKERS[1])
        application.stop(1)
        write_and_wait_for_half()
        counts.wait(written.total(), application)
    finally:
        application.kill_all()
        counts.close()
    assert {word: found[-1] for word, found in counts.of_words.items()} == written


@pytest.mark.timeout(300)
def test_the_protocol_of_streams_groups_is_refused_in_words(
    tmp_path: Path, classes: Path, cluster: LocalCluster
) -> None:
    for topic in ("lines", "counts"):
        create_topic(cluster.bootstrap_servers, topic, partitions=1, replicas=1)
    application = Application(tmp_path, classes, cluster.bootstrap_servers)
    try:
        application.start(1, "state", **{"group.protocol": "streams"})
        for _ in poll(TIMEOUT_S, lambda: f"the refusal\n{application.outputs()}", 0.2):
            if "UnsupportedVersionException" in application.outputs():
                break
    finally:
        application.kill_all()
