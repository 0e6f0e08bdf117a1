"""Secrets of a secured cluster are nowhere that others look: one test greps all of it for each of them.

| where | how |
|---|---|
| the logs of brokers and controllers | the whole files, after a use of everything, wrong passwords included |
| the list of processes | the command line of each process of this machine |
| DescribeConfigs | all configs of the broker, with their synonyms, as a client gets them |
| metrics | the page, with its password |
| reports | `model capture`, and the HTML report that is made of it |
| the console | each page |
"""

from __future__ import annotations

import base64
import contextlib
import re
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.cli.local.security import LocalSecurity
from tierfetch.tests.process.test_model_capture import KNOWN

pytestmark = [pytest.mark.plaintext, pytest.mark.secured, pytest.mark.timeout(180)]

TIMEOUT_S: Final = 60.0
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAPER: Final = "planted-of-the-scraper"
OTHER: Final = "planted-of-another-listener"
WRONG: Final = "planted-and-wrong"
PAGES: Final = ("", "topics", "partitions", "groups", "replace", "replace?broker=1")
PROTOCOLS: Final = "CLIENTS:SASL_SSL,BROKERS:SSL,CONTROLLER:SSL,METRICS:SASL_SSL"


@pytest.fixture(scope="module")
def security(tmp_path_factory: pytest.TempPathFactory) -> LocalSecurity:
    return LocalSecurity(tmp_path_factory.mktemp("planted") / "secrets")


@pytest.fixture(scope="module")
def cluster(security: LocalSecurity, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two brokers, whose metrics have a password, and which have another for a mechanism that nobody uses."""
    configs = {
        "listener.security.protocol.map": PROTOCOLS,
        "listener.name.metrics.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.metrics.plain.sasl.jaas.config": f'{MODULE} user_scraper="{SCRAPER}";',
        "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": f'{MODULE} user_other="{OTHER}";',
    }
    base = tmp_path_factory.mktemp("cluster")
    with LocalCluster(base, (1, 2), security=security, configs=configs) as cluster:
        yield cluster


def secrets_of(security: LocalSecurity) -> dict[str, str]:
    """Every secret by name: passwords, and a line of each private key."""
    found = {"scraper": SCRAPER, "other": OTHER, "wrong": WRONG, "admin": str(security.librdkafka()["sasl.password"])}
    for path in security.directory.glob("*.pem"):
        key = re.search(r"PRIVATE KEY-----\n(.+)\n", path.read_text())
        if key is not None:
            found[path.name] = key[1]
    assert len(found) > 5
    return found


def admin(cluster: LocalCluster, security: LocalSecurity, **changes: str) -> AdminClient:
    where: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
    return AdminClient({**where, **security.librdkafka(), **changes})


def configs_of(client: AdminClient) -> str:
    resource = ConfigResource(ResourceType.BROKER, "1")
    entries = client.describe_configs([resource])[resource].result(TIMEOUT_S)
    assert len(entries) > 20
    return "\n".join(f"{name}={entry.value} {entry.synonyms}" for name, entry in entries.items())


def metrics_of(cluster: LocalCluster, security: LocalSecurity) -> str:
    login = base64.b64encode(f"scraper:{SCRAPER}".encode()).decode()
    url = cluster.metrics_url(1).replace("http://", "https://")
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {login}"})
    context = ssl.create_default_context(cafile=str(security.ca_file))
    with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context) as page:
        text: str = page.read().decode()
    assert "tierfetch_" in text
    return text


def command(cluster: LocalCluster, security: LocalSecurity, *arguments: str | Path) -> str:
    words = [sys.executable, "-m", "tierfetch.cli.main", *map(str, arguments)]
    env = security.environment(map(str, arguments))
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def pages_of(cluster: LocalCluster, security: LocalSecurity) -> Iterator[tuple[str, str]]:
    """Each page of a console that runs for it."""
    words = [sys.executable, "-m", "tierfetch.cli.main", "console", "--bootstrap", cluster.bootstrap_servers]
    env = security.environment(())
    with subprocess.Popen([*words, "--port", "0"], env=env, stdout=subprocess.PIPE, text=True) as console:
        try:
            assert console.stdout is not None
            url = next(found[0] for line in console.stdout if (found := re.search(r"http://[^/\s]+", line)))
            for page in PAGES:
                try:
                    with urllib.request.urlopen(f"{url}/{page}", timeout=TIMEOUT_S) as answer:
                        yield f"console /{page}", answer.read().decode()
                except urllib.error.HTTPError as error:  # also what it says then
                    yield f"console /{page}", error.read().decode()
        finally:
            console.terminate()


def processes() -> str:
    lines = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            lines.append(" ".join(process.cmdline()))
    return "\n".join(lines)


def test_X1_no_secret_is_where_others_look(cluster: LocalCluster, security: LocalSecurity, tmp_path: Path) -> None:
    with pytest.raises(KafkaException):
        admin(cluster, security, **{"sasl.password": WRONG}).list_topics(timeout=5)
    for _ in poll(TIMEOUT_S, "the wrong password to be logged", 0.1):
        if "admin" in cluster.log_file(1).read_text():
            break
    inventory, report = tmp_path / "cluster.yaml", tmp_path / "report.html"
    known = [f"--known={each}" for each in KNOWN]
    seen = {
        "DescribeConfigs": configs_of(admin(cluster, security)),
        "metrics": metrics_of(cluster, security),
        "capture": command(
            cluster, security, "model", "capture", "--bootstrap", cluster.bootstrap_servers, "--window", "0",
            "--out", inventory, *known
        ),
        "replace": command(
            cluster, security, "model", "replace", "--cluster", inventory, "--broker", "1", "--html", report
        ),
        **dict(pages_of(cluster, security)),
        "processes": processes(),
    }  # fmt: skip
    seen |= {"inventory": inventory.read_text(), "report": report.read_text()}
    seen |= {f"log of broker {node}": cluster.log_file(node).read_text() for node in cluster.nodes}
    assert cluster.quorum is not None
    seen |= {f"log of controller {node}": cluster.quorum.log_file(node).read_text() for node in cluster.quorum.nodes}
    assert sum("</html>" in text for text in seen.values()) > len(PAGES) // 2
    assert all(seen[name] for name in ("DescribeConfigs", "inventory", "report", "processes", "log of broker 1"))
    leaks = [
        (place, name) for place, text in seen.items() for name, secret in secrets_of(security).items() if secret in text
    ]
    assert leaks == []
