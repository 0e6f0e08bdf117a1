"""`tierfetch model failover`."""

from __future__ import annotations

from typing import Unpack

import click

from .options import ClusterOptions, cluster_options


@click.command("failover")
@cluster_options
@click.option(
    "--broker", "brokers", required=True, multiple=True, type=int, help="Broker id; more than one die together."
)
@click.option(
    "--death",
    type=click.Choice(["host", "process"]),
    default="host",
    show_default=True,
    help="What dies: the host, which is silent until the session ends, or the process alone, whose listener refuses"
    " connections from then on.",
)
@click.option("--kafka", "is_kafka", is_flag=True, help="With Apache Kafka's times for detection and election.")
def failover(brokers: tuple[int, ...], death: str, is_kafka: bool, **options: Unpack[ClusterOptions]) -> None:
    """Predict a failover: brokers die and are not replaced. Which partitions have no leader, which reject producers,
    which brokers carry the load?

    \b
      --death host      power, network or kernel: nothing answers, and the broker's session has to end first
      --death process   kill -9, a crash: its listener refuses connections. tierfetch's controllers act on that, Apache
                        Kafka's wait for the session all the same

    \b
      tierfetch model failover --cluster cluster.yaml --broker 3 --death process
    """
    from .failover import show_failover
    from .inputs import Inputs

    show_failover(Inputs.read(**options), brokers, death, is_kafka=is_kafka)
