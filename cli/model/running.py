"""From moves to what is shown: simulate under each policy, with progress, then JSON or tables, and the report."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ...model import CalibrationError, Moves, Policy, Prediction, predict
from ..options import table_console
from .document import model_document
from .inputs import Inputs
from .report import write_report
from .tables import print_comparison, print_outcome


def simulated(inputs: Inputs, moves: Moves, policies: Sequence[Policy], down_s: float = 0.0) -> list[Prediction]:
    """One prediction for each policy. ClickException if a policy's system was not measured."""
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    found: list[Prediction] = []
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bars:
        bar = bars.add_task("simulate", total=len(policies))
        for policy in policies:
            bars.update(bar, description=f"simulate {policy.value}")
            try:
                calibration = inputs.calibrations.of(policy)
            except CalibrationError as error:
                raise click.ClickException(str(error)) from None
            found.append(predict(inputs.arrays, moves, policy, calibration, down_s=down_s))
            bars.advance(bar)
    return found


def compared(inputs: Inputs, moves: Moves, policies: Sequence[Policy], down_s: float = 0.0) -> list[Prediction]:
    """The predictions under all other policies whose system was measured, for a report."""
    others = [each for each in Policy if each not in policies and _is_measured(inputs, each)]
    return simulated(inputs, moves, others, down_s)


def _is_measured(inputs: Inputs, policy: Policy) -> bool:
    try:
        inputs.calibrations.of(policy)
    except CalibrationError:
        return False
    return True


def show(command: str, scenario: str, inputs: Inputs, results: list[Prediction], others: list[Prediction]) -> None:
    """The document or the tables on standard output, and the report, which shows the `others` beside."""
    document = model_document(command, scenario, inputs.arrays, results, inputs.warnings)
    if inputs.html_path is not None:
        write_report(
            model_document(command, scenario, inputs.arrays, [*results, *others], inputs.warnings), inputs.html_path
        )
    if inputs.as_json:
        click.echo(document.model_dump_json(indent=1))
        return
    inputs.say_warnings()
    console = table_console()
    if len(results) > 1:
        print_comparison(document, console)
    else:
        print_outcome(document, console)
    if inputs.html_path is not None:
        console.print(f"Report: {inputs.html_path}")
