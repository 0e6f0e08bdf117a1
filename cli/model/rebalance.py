"""`tierfetch model rebalance`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import click

from ...byte_text import rate
from ...light_dataclass import dataclass
from ...model import Policy
from ...planning import Goal, PlanError, PlanFile, PlanFileError, PlanOptions
from .options import ClusterOptions, cluster_options, policy_option
from .quantities import clause, count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ...model import ClusterArrays, Moves
    from .inputs import Inputs

ADDED_MAX: Final = 10_000
"""More brokers than any cluster has."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """What moves in which cluster, and how to call it."""

    arrays: ClusterArrays
    moves: Moves
    scenario: str
    warnings: tuple[str, ...] = ()


@click.command("rebalance")
@cluster_options
@click.option(
    "--add", "added", type=click.IntRange(min=1, max=ADDED_MAX), metavar="COUNT", help="So many new, empty brokers."
)
@click.option("--remove", "removed", multiple=True, type=int, metavar="ID", help="This broker gives away everything.")
@click.option("--even", "evens", is_flag=True, help="The same brokers, evenly filled.")
@click.option(
    "--plan",
    "plan_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A plan in the JSON of kafka-reassign-partitions, from any tool.",
)
@policy_option
def rebalance(
    added: int | None,
    removed: tuple[int, ...],
    evens: bool,
    plan_path: Path | None,
    policy: str | None,
    **options: Unpack[ClusterOptions],
) -> None:
    """Predict a rebalance: replicas move to other brokers. How long does it take, and what does it load?

    Choose what happens with one of --add, --remove, --even and --plan. The first three are planned as `tierfetch
    reassign plan` does, in waves under a throttle that leaves producers room (or the one of --throttle).

    \b
      tierfetch model rebalance --cluster cluster.yaml --add 2
    """
    chosen = [added is not None, bool(removed), evens, plan_path is not None]
    if chosen.count(True) != 1:
        raise click.UsageError("give exactly one of --add, --remove, --even and --plan")
    from .inputs import Inputs
    from .running import compared, show, simulated

    inputs = Inputs.read(**options)
    asked = Policy(policy) if policy else inputs.arrays.policy
    try:
        planned = _from_file(inputs, plan_path) if plan_path else _planned(inputs, asked, added, removed)
    except (PlanError, PlanFileError) as error:
        raise click.ClickException(str(error)) from None
    inputs = replace(inputs, arrays=planned.arrays, warnings=[*inputs.warnings, *planned.warnings])
    results = simulated(inputs, planned.moves, [asked])
    others = compared(inputs, planned.moves, [asked]) if inputs.html_path else []
    show("rebalance", planned.scenario, inputs, results, others)


def _planned(inputs: Inputs, policy: Policy, added: int | None, removed: tuple[int, ...]) -> _Planned:
    from ...model import with_new_brokers
    from ...planning import plan_replicas
    from .inputs import brokers_of

    arrays = inputs.arrays
    before = arrays.broker_count
    if added is not None:
        arrays = with_new_brokers(arrays, added)
        goal = Goal.add(range(before, arrays.broker_count))
        what = f"{clause(added, 'broker', 'joins', 'join')} {before}"
    elif removed:
        goal = Goal.remove(brokers_of(arrays, removed))
        what = f"Broker {', '.join(map(str, removed))} of {before} gives away everything"
    else:
        goal = Goal.rebalance()
        what = f"{count(before, 'broker')} are filled evenly"
    throttle = arrays.throttle_bytes_per_s if inputs.is_throttle_given else None
    plan = plan_replicas(arrays, goal, PlanOptions(policy=policy, throttle_bytes_per_s=throttle))
    arrays = replace(arrays, throttle_bytes_per_s=plan.throttle_bytes_per_s)
    return _Planned(arrays, plan.moves, _scenario(what, plan.moves, plan.throttle_bytes_per_s), plan.warnings)


def _from_file(inputs: Inputs, path: Path) -> _Planned:
    from ...model import moves_between
    from ...planning import planned_replicas

    plan, arrays = PlanFile.read(path), inputs.arrays
    moves = moves_between(arrays, planned_replicas(arrays, plan))
    throttle = plan.details.throttle_bytes_per_s
    if throttle is not None and not inputs.is_throttle_given:
        arrays = replace(arrays, throttle_bytes_per_s=float(throttle))
    moves = replace(moves, wave=_waves(arrays, plan, moves))
    return _Planned(arrays, moves, _scenario(f"Plan {path.name}", moves, arrays.throttle_bytes_per_s))


def _waves(arrays: ClusterArrays, plan: PlanFile, moves: Moves) -> NDArray[np.int32]:
    """The wave of each move; of partitions that the file orders only at last, the one after all."""
    import numpy as np

    wave_of = {plan.partitions[place].key: number for number, wave in enumerate(plan.waves) for place in wave}
    names = [(arrays.topic_names[arrays.topic[each]], int(arrays.index[each])) for each in moves.partition]
    return np.array([wave_of.get(name, len(plan.waves)) for name in names], dtype=np.int32)


def _scenario(what: str, moves: Moves, throttle: float) -> str:
    import numpy as np

    waves = len(np.unique(moves.wave))
    held = f", throttle {rate(throttle)}" if np.isfinite(throttle) else ", no throttle"
    return f"{what}: {clause(len(moves), 'replica', 'moves', 'move')} in {count(waves, 'wave')}{held}"
