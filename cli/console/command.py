"""`tierfetch console`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from ...console import INTERVAL_S, Pages
from ...console.core import ListenRefusedError, allowed_hosts, check_listen
from ...extras import needing
from ..cluster_session import Admin, bootstrap_option, run
from ..options import FiniteRange, pairs
from .prediction import ASSUMED, FIGURES
from .reading import CALL_S, ClusterReading

PORT: Final = 8090


@click.command("console", short_help="Show a cluster as a web page.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="The port to listen on; 0 takes a free one.",
)
@click.option("--allow-remote", is_flag=True, help="Listen on an address that other machines reach: no password!")
@click.option(
    "--allow-host", "names", multiple=True, metavar="NAME", help="A name by which browsers reach it; repeatable."
)
@click.option(
    "--interval",
    "interval_s",
    type=FiniteRange(min=1, max=3600),
    default=INTERVAL_S,
    show_default=True,
    help="Seconds between two looks at the cluster, at least.",
)
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PLAN",
    help="A plan to show beside those that this user carries out, which are found.",
)
@click.option(
    "--known",
    "known",
    multiple=True,
    metavar="KEY=VALUE",
    help=f"What you know of brokers and tier, for predictions; keys: {', '.join(FIGURES)}. Repeatable.",
)
@bootstrap_option
def console(
    host: str,
    port: int,
    allow_remote: bool,
    names: tuple[str, ...],
    interval_s: float,
    plan_file: Path | None,
    known: tuple[str, ...],
    bootstrap: tuple[str, ...],
) -> None:
    """Show a cluster, tierfetch's or Apache Kafka's, as a web page: brokers, every partition's replicas, what is in
    the tier and what waits for it, groups, the quorum, a reassignment; and what replacing a broker would take.

    \b
      tierfetch console --bootstrap kafka-1:9092
      tierfetch console --port 0 --plan plan.json
      tierfetch console --known cores=16 --known nic_in_bytes_per_s='10 Gbit/s'

    It only reads, and asks the cluster only while a page is open. It has no passwords, so it listens on loopback; from
    elsewhere use an SSH tunnel. Ctrl-C ends it at once.
    """
    figures = _known(known)
    try:
        check_listen(host, is_remote_allowed=allow_remote)
    except ListenRefusedError as error:
        raise click.ClickException(f"--host {error}") from None
    with needing("console"):
        from ...console import application, listener, serve, url_of
    try:
        listening = listener(host, port)
    except OSError as error:
        raise click.ClickException(f"--host {host} --port {port}: {error.strerror or error}") from None

    async def work(admin: Admin) -> None:
        pages = Pages(ClusterReading(admin, plan=plan_file, known=figures), interval_s=interval_s)
        hosts = allowed_hosts(host, names)
        admin.when_lost(pages.expire)
        app = application(pages, hosts=hosts, refresh_s=interval_s, figures=FIGURES, assumed=ASSUMED)
        click.echo(f"console at {url_of(host, listening)}, ends with Ctrl-C")
        try:
            await serve(app, listening)
        finally:
            await pages.close()

    with listening:
        run(bootstrap, work, timeout_s=CALL_S, notice=None)  # a page says it


def _known(options: tuple[str, ...]) -> Mapping[str, str]:
    given = pairs(options, "--known", "cores=16")
    for key in given:
        if key not in FIGURES:
            raise click.UsageError(f"--known {key}: no such key; there are {', '.join(FIGURES)}")
    return given
