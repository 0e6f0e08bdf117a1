"""Apache Kafka's jars, from Maven Central through `mvn`, kept in `.lab/` of the checkout.

Nothing is downloaded twice: a directory is complete when its marker is there. Kafka Streams has a directory of its own:
the database in it is larger than all else.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tierfetch.cli.local import captured
from tierfetch.protocol import OperatorError

KAFKA_VERSION = "4.3.0"
LAB = Path(__file__).resolve().parents[2] / ".lab"
DOWNLOAD_TIMEOUT_S = 900
Artifacts = Sequence[tuple[str, str | None]]
"""Names in the group of Apache Kafka, each with its classifier."""
_ARTIFACTS: Final[Artifacts] = (
    ("kafka_2.13", None),
    ("kafka-storage", None),
    ("kafka-storage", "test"),
    ("kafka-tools", None),
)
_STREAMS: Final[Artifacts] = (("kafka-streams", None),)


class KafkaUnavailableError(OperatorError):
    """Apache Kafka cannot be run here; the message says why."""


def _pom(artifacts: Artifacts) -> str:
    def dependency(group: str, artifact: str, version: str, classifier: str | None) -> str:
        extra = f"<classifier>{classifier}</classifier>" if classifier else ""
        return (
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version>{extra}</dependency>"
        )

    listed = [dependency("org.apache.kafka", name, KAFKA_VERSION, classifier) for name, classifier in artifacts]
    listed.append(dependency("org.slf4j", "slf4j-simple", "1.7.36", None))
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>org.tierfetch</groupId><artifactId>lab</artifactId><version>1</version>"
        f"<dependencies>{''.join(listed)}</dependencies></project>"
    )


def kafka_jars() -> Path:
    """Return the directory with the jars, made on first use. Raise KafkaUnavailableError with the reason otherwise."""
    return _jars("kafka", _ARTIFACTS)


def streams_jars() -> Path:
    """Return the directory with Kafka Streams and all that it needs, as `kafka_jars` does."""
    return _jars("streams", _STREAMS)


def _jars(name: str, artifacts: Artifacts) -> Path:
    for tool, package in (("java", "Java 17 or newer"), ("mvn", "Maven")):
        if shutil.which(tool) is None:
            raise KafkaUnavailableError(f"Apache Kafka {KAFKA_VERSION} needs {package}: no `{tool}` on the PATH")
    directory = LAB / f"{name}-{KAFKA_VERSION}"
    marker = directory / ".complete"
    if marker.exists():
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers of a test run may need them first
        if not marker.exists():
            _download(directory, artifacts)
            marker.touch()
    return directory


def _download(directory: Path, artifacts: Artifacts) -> None:
    pom = directory / "pom.xml"
    pom.write_text(_pom(artifacts))
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={directory}"]
    try:
        done = captured(command, timeout_s=DOWNLOAD_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise KafkaUnavailableError(f"Maven did not bring the jars within {DOWNLOAD_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise KafkaUnavailableError(f"Maven could not bring the jars: {done.stdout.strip()[-300:]}")
