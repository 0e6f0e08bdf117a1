"""A cluster with TLS and SASL on every kind of connection, and the clients that people use."""

from __future__ import annotations

import contextlib
import ssl
import subprocess
import sys
from collections.abc import Iterator

import javaproperties
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from cryptography import x509

from tierfetch.cli.local.certificates import make_certificate
from tierfetch.cli.local.processes import poll
from tierfetch.tests.process.clients import create_topic
from tierfetch.tests.process.secure_servers import SCRAM, SecureServers

pytestmark = [pytest.mark.secured, pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(180)]
TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureServers]:
    with SecureServers(tmp_path_factory.mktemp("secure"), (1, 2, 3)) as servers:
        create_topic(servers.bootstrap_servers, "t", replicas=3, configs={"min.insync.replicas": "2"})
        yield servers


def librdkafka(
    servers: SecureServers, mechanism: str = "SCRAM-SHA-256", user: str = "alice", password: str = "pencil"
) -> dict[str, object]:
    return {
        "bootstrap.servers": servers.external,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "ssl.ca.location": str(servers.ca),
        "log_level": 2,
    }


@pytest.mark.parametrize(
    ("mechanism", "user", "password"), [("SCRAM-SHA-256", "alice", "pencil"), ("PLAIN", "bob", "pen")]
)
def test_librdkafka(servers: SecureServers, mechanism: str, user: str, password: str) -> None:
    config = librdkafka(servers, mechanism, user, password)
    failed: list[object] = []
    producer = Producer({**config, "acks": "all"})
    for number in range(100):
        producer.produce("t", f"{user}-{number}", on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(TIMEOUT_S) == 0
    assert not failed
    consumer = Consumer({**config, "group.id": user, "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    expected = {f"{user}-{number}" for number in range(100)}
    while expected:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None
        expected.discard(message.value().decode())
    consumer.close()


def test_librdkafka_learns_that_its_password_is_wrong(servers: SecureServers) -> None:
    errors: list[KafkaError] = []
    producer = Producer({**librdkafka(servers, password="wrong"), "error_cb": errors.append})
    while not any(error.code() == KafkaError._AUTHENTICATION for error in errors):
        producer.poll(TIMEOUT_S)
    found = next(error for error in errors if error.code() == KafkaError._AUTHENTICATION)
    assert "invalid credentials with SASL mechanism SCRAM-SHA-256" in str(found)


async def test_aiokafka(servers: SecureServers) -> None:
    config = {
        "bootstrap_servers": servers.external,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "pencil",
        "ssl_context": ssl.create_default_context(cafile=str(servers.ca)),
    }
    async with AIOKafkaProducer(**config) as producer:
        sent = await producer.send_and_wait("t", b"aiokafka")
    async with AIOKafkaConsumer("t", **config, auto_offset_reset="earliest") as consumer:
        async for message in consumer:
            if message.offset == sent.offset:
                assert message.value == b"aiokafka"
                break


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kafka_python(servers: SecureServers) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        bootstrap_servers=servers.external,
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_plain_username="bob",
        sasl_plain_password="pen",
        ssl_cafile=str(servers.ca),
    )
    assert consumer.topics() >= {"t"}
    consumer.close()


def test_credentials_are_altered_and_described(servers: SecureServers) -> None:
    admin = AdminClient(librdkafka(servers))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 5000)
    for future in admin.alter_user_scram_credentials([UserScramCredentialUpsertion("carol", info, b"rose")]).values():
        future.result(TIMEOUT_S)
    described = described_of(admin, "carol", is_there=True)
    assert [(item.mechanism, item.iterations) for item in described] == [(ScramMechanism.SCRAM_SHA_256, 5000)]
    assert AdminClient(librdkafka(servers, user="carol", password="rose")).list_topics(timeout=TIMEOUT_S).topics
    deletion = UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_256)
    for future in admin.alter_user_scram_credentials([deletion]).values():
        future.result(TIMEOUT_S)
    assert described_of(admin, "carol", is_there=False) == []


def described_of(admin: AdminClient, user: str, *, is_there: bool) -> list[ScramCredentialInfo]:
    """Return a user's credentials once the broker that answers has applied the change."""
    for _ in poll(TIMEOUT_S, f"{user} to be {'known' if is_there else 'unknown'}"):
        found: list[ScramCredentialInfo] = []
        with contextlib.suppress(KafkaException):  # RESOURCE_NOT_FOUND
            found = admin.describe_user_scram_credentials([user])[user].result(TIMEOUT_S).scram_credential_infos
        if bool(found) is is_there:
            return found
    raise AssertionError(user)


def serial(servers: SecureServers, node: int) -> int:
    """Return the serial number of the certificate that a new connection is shown."""
    pem = ssl.get_server_certificate(("localhost", servers.external_ports[node]))
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


def test_a_certificate_is_renewed_without_a_restart(servers: SecureServers) -> None:
    made = make_certificate("broker-1", issuer=servers.authority)
    made.write_pem(servers.key_file(1).parent, "node-1")
    for _ in poll(TIMEOUT_S, "the new certificate to be shown"):
        if serial(servers, 1) == made.certificate.serial_number:
            break
    assert AdminClient(librdkafka(servers)).list_topics(timeout=TIMEOUT_S).topics


def test_a_listener_gets_another_keystore_by_a_dynamic_config(servers: SecureServers) -> None:
    made = make_certificate("broker-2", issuer=servers.authority)
    path = made.write_pem(servers.key_file(2).parent, "other-2")
    admin = AdminClient(librdkafka(servers))
    for location in ("nowhere.pem", str(path)):
        entry = ConfigEntry(
            "listener.name.external.ssl.keystore.location",
            location,
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(ResourceType.BROKER, "2", incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(TIMEOUT_S)
    for _ in poll(TIMEOUT_S, "the other keystore to be used"):
        if serial(servers, 2) == made.certificate.serial_number:
            break
    assert "nowhere.pem: cannot be read" in servers.log_file(2).read_text()
    described = admin.describe_configs([ConfigResource(ResourceType.BROKER, "2")])
    configs = next(iter(described.values())).result(TIMEOUT_S)
    assert configs["listener.name.external.ssl.keystore.location"].value == str(path)
    assert not [name for name in configs if "password" in name or "jaas" in name]


def command(servers: SecureServers, properties: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of ours with a client properties file."""
    path = servers.base / "client.properties"
    path.write_bytes(javaproperties.dumps(properties).encode())
    path.chmod(0o600)
    line = [sys.executable, "-m", "tierfetch.cli.main", *arguments, "--command-config", str(path)]
    return subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def test_commands_take_the_file_of_javas_tools(servers: SecureServers) -> None:
    done = command(servers, servers.client(), "topics", "list", "--bootstrap", servers.external)
    assert (done.returncode, done.stderr) == (0, "")
    assert "t" in done.stdout.split()
    node = servers.client("PLAIN", "node", "node-secret")
    quorum = ("quorum", "describe", "--status", "--bootstrap-controller", servers.bootstrap_controllers)
    done = command(servers, node, *quorum)
    assert (done.returncode, done.stderr) == (0, "")
    assert servers.cluster_id in done.stdout


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"sasl.jaas.config": f'{SCRAM} username="alice" password="hunter2";'},
            "refuses the SCRAM-SHA-256 credentials",
        ),
        ({"sasl.mechanism": "SCRAM-SHA-512"}, "it offers SCRAM-SHA-256, PLAIN"),
        ({"security.protocol": "SSL"}, "closed"),
        ({"security.protocol": "PLAINTEXT"}, "closed"),
        ({"ssl.truststore.location": "nowhere.pem"}, "ssl.truststore.location=nowhere.pem: cannot be read"),
        ({"sasl.jaas.config": 'x required password="hunter2"'}, "sasl.jaas.config: expected 'MODULE required"),
    ],
)
def test_commands_say_why_they_are_refused(servers: SecureServers, changes: dict[str, str], expected: str) -> None:
    done = command(servers, {**servers.client(), **changes}, "topics", "list", "--bootstrap", servers.external)
    assert done.returncode == 1
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr


def test_secrets_are_in_no_log(servers: SecureServers) -> None:
    for node in (1, 2, 3):
        text = servers.log_file(node).read_text()
        assert "pencil" not in text
        assert "hunter2" not in text
        assert "node-secret" not in text
        assert "user_bob" not in text
        assert "Traceback" not in text
