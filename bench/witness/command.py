"""`python -m bench witness`: the model beside the simulated cluster."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from tierfetch.cli.options import table_console

from ..measure import commit, machine
from .case import LARGE, LARGEST, SMALL
from .course import waves_table
from .witness import Compared, calibrated, compare, sentence, table


@click.command("witness")
@click.option("--large", is_flag=True, help="Also clusters of 50 brokers: some minutes more.")
@click.option("--largest", is_flag=True, help="And of 200, with 4,000 partitions.")
@click.option("--cases", "wanted", multiple=True, metavar="TEXT", help="Only cases whose name has this.")
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Of the simulation: delays, and the order of events."
)
@click.option("--waves", "shows_waves", is_flag=True, help="Show where the time of each wave went.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write the figures here, after every case.")
def main(large: bool, largest: bool, wanted: tuple[str, ...], seed: int, shows_waves: bool, path: Path | None) -> None:
    """What the model predicts of clusters whose links and disks limit, beside production code on virtual time.

    \b
      python -m bench witness                      6 and 12 brokers
      python -m bench witness --large              and 50
      python -m bench witness --cases "add 2" --waves

    Each case is predicted before it is simulated. The same seed always gives the same figures.
    """
    console = table_console()
    all_cases = (*SMALL, *(LARGE if large or largest else ()), *(LARGEST if largest else ()))
    cases = [each for each in all_cases if not wanted or any(text in each.name for text in wanted)]
    if not cases:
        names = "\n  ".join(each.name for each in all_cases)
        raise click.UsageError(f"no case has {' or '.join(wanted)} in its name:\n  {names}")
    with console.status("constants of simulated brokers"):
        calibration = calibrated(seed)
    found: list[Compared] = []
    for case in cases:
        with console.status(case.name):
            found.append(compare(case, calibration, seed=seed))
        console.print(f"{case.name}: {found[-1].error:+.0%} [dim]({found[-1].cpu_s:.0f} s of CPU)[/]", highlight=False)
        if shows_waves:
            console.print(waves_table(case.name, found[-1].waves))
        if path is not None:
            document = {
                "commit": commit(),
                "machine": machine(),
                "seed": seed,
                "calibration": calibration.model_dump(mode="json"),
                "cases": [{**asdict(each), "error": each.error, "median_error": each.median_error} for each in found],
            }
            path.write_text(json.dumps(document, indent=1) + "\n")
    console.print(table(found))
    console.print(sentence(found))
