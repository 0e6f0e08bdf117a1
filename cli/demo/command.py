"""The `tierfetch demo` command."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from ...extras import needing
from ..command_config import use_identity
from ..local import LocalSecurity, NodeFailedError, TierSettings, end_with_parent, free_ports, poll
from ..options import OutputFile, write_text
from . import scenario
from .proof import consume_all
from .report import DemoReport, print_table, write_page

SIZE_BYTES_MIN = 32 << 20
MOTO_START_TIMEOUT_S = 60.0
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(value: str | int) -> int:
    """Bytes, or a number with K, M or G (1024 each)."""
    text = str(value).strip().upper().removesuffix("IB").removesuffix("B")
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS and text else (text, "")
    if not number.isdigit():
        raise click.BadParameter(f"{value!r} is not a size: give bytes, or a number with K, M or G")
    bytes_ = int(number) * _UNITS[unit]
    if bytes_ < SIZE_BYTES_MIN:
        raise click.BadParameter(f"at least {SIZE_BYTES_MIN >> 20}M, so that there is something to tier")
    return bytes_


@click.command("demo")
@click.option("--tier", type=click.Choice(["local", "s3"]), default="local", help="Directory, or S3 (moto's server).")
@click.option(
    "--size", "size_bytes", type=size, metavar="SIZE", default="512M", show_default=True, help="How much to produce."
)
@click.option("--json", "json_path", type=OutputFile(), help="Write the figures here.")
@click.option(
    "--html",
    "html_path",
    type=OutputFile(),
    default="demo-report.html",
    show_default=True,
    help="Write the page here.",
)
@click.option("--policy", "policies", multiple=True, type=click.Choice(scenario.POLICIES), help="Only these policies.")
@click.option("--secure", is_flag=True, help="TLS on every connection, SCRAM for clients, ACLs that deny by default.")
@click.option(
    "--keep", type=click.Path(path_type=Path, file_okay=False), help="Use this directory, and leave it there."
)
def demo(
    tier: Literal["local", "s3"],
    size_bytes: int,
    json_path: Path | None,
    html_path: Path,
    policies: tuple[str, ...],
    secure: bool,
    keep: Path | None,
) -> None:
    """Kill and wipe a follower under each bootstrap policy, and time its return.

    Two broker processes on loopback, a topic of four partitions, librdkafka as the producer. Everything closed is
    tiered, 80 % stays local too. Then for each policy: kill -9, wipe, start again, until the follower is back in every
    ISR. The replica is compared with the leader byte by byte, and a consumer reads everything from offset 0.

    Ends with 1 if any check fails.

    \b
      tierfetch demo --size 1G
    """
    console = Console()
    report = DemoReport(bytes_produced=size_bytes // scenario.VALUE_BYTES * scenario.VALUE_BYTES, tier=tier)
    with needing("demo"):
        import confluent_kafka  # noqa: F401 - missing ones are better said before anything is started
        import matplotlib  # noqa: F401
    try:
        with workspace(keep) as base, tier_settings(tier, base) as settings:
            security = secured(base) if secure else None
            run(report, base, settings, policies or scenario.POLICIES, console, security)
    except (NodeFailedError, TimeoutError) as error:
        raise click.ClickException(str(error)) from None
    print_table(report, console)
    write_page(report, html_path)
    console.print(f"Report: {html_path}")
    if json_path is not None:
        write_text(json_path, report.model_dump_json(indent=1) + "\n")
    if not report.passed:
        console.print("[red]A check failed.[/]")
        sys.exit(1)


def secured(base: Path) -> LocalSecurity:
    """Return the security of the demo's cluster, and have this command connect as its administrator."""
    security = LocalSecurity(base / "secrets")
    use_identity(security.client())
    return security


def run(
    report: DemoReport,
    base: Path,
    settings: TierSettings,
    policies: tuple[str, ...],
    console: Console,
    security: LocalSecurity | None,
) -> None:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    running = scenario.running(base, settings, report.bytes_produced, security)
    with Progress(*columns, console=console) as bars, running as demo:
        scenario.create_topic(demo)
        bar = bars.add_task("produce, acks=all", total=report.bytes_produced)
        checksums = scenario.produce(demo, report.bytes_produced, lambda count: bars.advance(bar, count))
        bars.update(bar, completed=report.bytes_produced)
        bar = bars.add_task("tier closed segments", total=report.bytes_produced)
        scenario.wait_tiered(demo, lambda count: bars.advance(bar, count))
        bars.update(bar, completed=report.bytes_produced)
        bar = bars.add_task("replace the follower", total=len(policies))
        for policy in policies:
            bars.update(bar, description=f"replace the follower: {policy}")
            report.policies.append(scenario.replace_follower(demo, policy))
            bars.advance(bar)
        bar = bars.add_task("consume from offset 0", total=report.bytes_produced)
        connection = {"bootstrap.servers": demo.cluster.bootstrap_servers, **demo.login}
        report.consumer_ok = consume_all(connection, scenario.TOPIC, checksums, lambda count: bars.advance(bar, count))


@contextmanager
def workspace(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise click.UsageError(f"--keep {keep}: the directory is not empty")
        yield keep.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="tierfetch-demo-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@contextmanager
def tier_settings(tier: str, base: Path) -> Iterator[TierSettings]:
    if tier == "local":
        yield TierSettings("local", {"dir": str(base / "tier")})
        return
    with moto_server(base) as endpoint:
        yield TierSettings(
            "s3",
            {
                "bucket": "tierfetch-demo",
                "region": "us-east-1",
                "endpoint.url": endpoint,
                "path.style": "true",
                "access.key.id": "demo",
                "secret.access.key": "demo",
            },
        )


@contextmanager
def moto_server(base: Path) -> Iterator[str]:
    """moto's S3 in a process of its own, with an empty bucket; yields its URL."""
    with needing("demo"):
        import moto  # noqa: F401 - a process of its own imports it
    (port,) = free_ports(1)
    endpoint = f"http://127.0.0.1:{port}"
    with (base / "moto.log").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "MOTO_S3_DEFAULT_KEY_BUFFER_SIZE": str(64 << 20)},
            preexec_fn=end_with_parent(),
        )
    try:
        for _ in poll(MOTO_START_TIMEOUT_S, "moto's server", 0.1):
            if create_bucket(endpoint):
                break
            if process.poll() is not None:
                said = (base / "moto.log").read_text(errors="replace").strip().splitlines()
                raise click.ClickException(f"moto's server has ended: {said[-1] if said else process.returncode}")
        yield endpoint
    finally:
        process.kill()
        process.wait()


def create_bucket(endpoint: str) -> bool:
    authorization = "AWS4-HMAC-SHA256 Credential=demo/20000101/us-east-1/s3/aws4_request"
    request = urllib.request.Request(
        f"{endpoint}/tierfetch-demo", method="PUT", headers={"Authorization": authorization}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
