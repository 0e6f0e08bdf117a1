"""`tierfetch model replace` and `tierfetch model compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from ...byte_text import size
from ...model import Policy
from ..options import FiniteRange
from .options import ClusterOptions, cluster_options, policy_option
from .quantities import count, duration

if TYPE_CHECKING:
    from ...model import ClusterArrays
    from .inputs import Inputs

broker_option = click.option(
    "--broker", "brokers", required=True, multiple=True, type=int, help="Broker id; more than one die together."
)
down_option = click.option(
    "--down",
    "down_s",
    type=FiniteRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="From the broker's death until its successor's process is started.",
)


@click.command("replace")
@cluster_options
@broker_option
@policy_option
@down_option
def replace(brokers: tuple[int, ...], policy: str | None, down_s: float, **options: Unpack[ClusterOptions]) -> None:
    """Predict a replacement: a broker dies and comes back empty. When is every partition in sync again, and
    what does it take?

    Its leaders move to other replicas in sync at once. The clock starts when it dies; --down is how long its successor
    takes to be started. Time is taken until the last of its replicas is in the ISR.

    \b
      tierfetch model replace --cluster cluster.yaml --broker 3 --html report.html
    """
    from .inputs import Inputs

    inputs = Inputs.read(**options)
    policies = [Policy(policy) if policy else inputs.arrays.policy]
    _run("replace", inputs, brokers, policies, down_s)


@click.command("compare")
@cluster_options
@broker_option
@down_option
def compare(brokers: tuple[int, ...], down_s: float, **options: Unpack[ClusterOptions]) -> None:
    """Predict the same replacement under every bootstrap policy, tierfetch's and Apache Kafka's, side by side.

    \b
      tierfetch model compare --cluster cluster.yaml --broker 3
    """
    from .inputs import Inputs

    inputs = Inputs.read(**options)
    first = inputs.arrays.policy
    _run("compare", inputs, brokers, [first, *(each for each in Policy if each is not first)], down_s)


def _run(command: str, inputs: Inputs, ids: tuple[int, ...], policies: list[Policy], down_s: float) -> None:
    from ...model import replacement_moves
    from .inputs import brokers_of
    from .running import compared, show, simulated

    brokers = brokers_of(inputs.arrays, ids)
    moves = replacement_moves(inputs.arrays, *brokers)
    results = simulated(inputs, moves, policies, down_s)
    others = compared(inputs, moves, policies, down_s) if inputs.html_path else []
    show(command, _scenario(inputs.arrays, brokers, down_s), inputs, results, others)


def _scenario(arrays: ClusterArrays, brokers: list[int], down_s: float) -> str:
    from .inputs import held_bytes

    names = " and ".join(str(arrays.broker_ids[each]) for each in brokers)
    replicas = count(int(arrays.replica_counts[brokers].sum()), "replica")
    held = size(held_bytes(arrays, brokers))
    later = f", {duration(down_s)} later" if down_s else ""
    return (
        f"{'Broker' if len(brokers) == 1 else 'Brokers'} {names} of {arrays.broker_count} "
        f"({replicas}, {held} on disk) {'dies' if len(brokers) == 1 else 'die'} and "
        f"{'comes' if len(brokers) == 1 else 'come'} back empty{later}"
    )
