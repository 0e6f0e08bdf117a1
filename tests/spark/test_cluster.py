"""A cluster of its own processes, whose executors lack what the driver has: said when a query is planned"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import boto3
import pytest

from tierfetch.cli.demo.command import moto_server
from tierfetch.cli.local.processes import free_ports, poll
from tierfetch.tests import samples
from tierfetch.tests.process.children import kill_session, started

from .tiers import TIMEOUT_S

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KEYS = {"AWS_ACCESS_KEY_ID": "demo", "AWS_SECRET_ACCESS_KEY": "demo"}
_QUERIES = """
import json, sys
from tierfetch.pipeline import local_session

options = json.loads(sys.argv[2])
session = local_session(sys.argv[1], {"spark.ui.showConsoleProgress": "false", "spark.cores.max": "1"})
try:
    session.read.format("tierfetch").options(**options).load().count()
except Exception as error:
    print("batch:", error)
stream = session.readStream.format("tierfetch").options(**options).load().writeStream.format("noop")
try:
    stream.trigger(availableNow=True).start().awaitTermination()
except Exception as error:
    print("stream:", error)
keys = {"storage.access.key.id": "demo", "storage.secret.access.key": "demo"}
print("rows", session.read.format("tierfetch").options(**options, **keys).load().count())
session.stop()
"""


@contextmanager
def cluster(base: Path) -> Iterator[str]:
    """Spark's own, of one worker, in an environment without credentials; its URL."""
    import pyspark

    from tierfetch.pipeline.spark.java import java_home

    (port,) = free_ports(1)
    master = f"spark://127.0.0.1:{port}"
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    nothing = {"AWS_SHARED_CREDENTIALS_FILE": str(base / "none"), "AWS_CONFIG_FILE": str(base / "none")}
    without = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | nothing
    environment = {**without, "AWS_EC2_METADATA_DISABLED": "true", "JAVA_HOME": str(java_home())}
    here = ("--host", "127.0.0.1", "--webui-port", "0")
    roles = (
        ("master.Master", *here, "--port", str(port)),
        ("worker.Worker", *here, "--cores", "1", "--memory", "1g", "--work-dir", str(base / "work"), master),
    )
    log = base / "cluster.log"
    with log.open("wb") as output, ExitStack() as stack:
        for role, *arguments in roles:
            command = [str(spark_class), f"org.apache.spark.deploy.{role}", *arguments]
            process = started(command, output, env=environment, cwd=base)
            stack.callback(kill_session, process)  # executors are in the session of their worker
        for _ in poll(TIMEOUT_S, "the worker to register", 0.2):
            if b"Registering worker" in log.read_bytes():
                break
        yield master


def test_P1_credentials_that_only_the_driver_has_are_missed_when_a_query_is_planned(tmp_path: Path) -> None:
    with moto_server(tmp_path) as endpoint, cluster(tmp_path) as master:
        fill(endpoint)
        options = {
            "location": "s3://tierfetch-demo/tier",
            "topics": "s-trim",
            "storage.endpoint.url": endpoint,
            "storage.region": "us-east-1",
        }
        command = [sys.executable, "-c", _QUERIES, master, json.dumps(options)]
        environment = {**os.environ, **KEYS}
        result = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=2 * TIMEOUT_S, check=False
        )
    said = [line for line in result.stdout.splitlines() if "executors cannot read what the driver can" in line]
    assert {"Unable to locate credentials" in line for line in said} == {True}, result.stdout + result.stderr
    assert {"batch:", "stream:"} <= set(result.stdout.split())
    assert result.stdout.count("executors cannot read what the driver can") >= 2
    assert result.stdout.splitlines()[-1] == "rows 1634"


def fill(endpoint: str) -> None:
    keys = {"aws_access_key_id": "demo", "aws_secret_access_key": "demo"}
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
    for path in samples.tier_directory("s-trim").iterdir():
        client.upload_file(str(path), "tierfetch-demo", f"tier/{path.parent.name}/{path.name}")
