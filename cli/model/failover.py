"""What `tierfetch model failover` says: brokers die and are not replaced."""

from __future__ import annotations

import click
import numpy as np
from pydantic import BaseModel, Field
from rich.console import Console
from rich.table import Table

from ...extras import needing
from ...model import (
    Bools,
    Calibration,
    ClusterArrays,
    Death,
    Policy,
    most_live,
    predict_failover,
    unavailable_range,
    unavailable_s,
)
from ...pages import Made, Tile, quiet, section, tiles, verdict
from ..options import table_console, write_text
from .charts import load_chart
from .document import BrokerLoad, ClusterSummary, Interval, cluster_summary, finite, interval
from .inputs import Inputs, brokers_of
from .page import whole_page
from .quantities import between, clause, duration, share

BROKERS_SHOWN = 12
NAMES_MAX = 100
"""Partitions that the document names."""


class FailoverDocument(BaseModel):
    """The document of `model failover --json`. Partitions are named up to a hundred of each kind, all are counted."""

    command: str = "failover"
    scenario: str
    cluster: ClusterSummary
    warnings: list[str]
    system: str = Field(description="Whose times: tierfetch's or Apache Kafka's.")
    death: Death = Field(description="Of the process: its listener refuses connections. Of the host: silence.")
    unavailable_s: float = Field(description="Until partitions that lost their leader have another, after this death.")
    unavailable_range: Interval = Field(description="Between these it is in four of five cases.")
    widest: str = Field(description="The input that widens this range most.")
    unavailable_s_by_death: dict[Death, float] = Field(description="The same, after either.")
    lost_leader: int
    under_replicated: int
    leaderless: int
    leaderless_partitions: list[str]
    below_min_isr: int
    below_min_isr_partitions: list[str]
    brokers: list[BrokerLoad] = Field(description="The fullest afterwards first.")


def show_failover(inputs: Inputs, brokers: tuple[int, ...], death: str, *, is_kafka: bool) -> None:
    """Print the document, or sentences and a table, and write the page."""
    dead = brokers_of(inputs.arrays, brokers)
    calibration = inputs.calibrations.of(Policy.KAFKA if is_kafka else Policy.TIER_FIRST)
    document = _document(inputs, dead, calibration, Death(death))
    if inputs.html_path is not None:
        write_text(inputs.html_path, failover_page(document, Made.now()))
    if inputs.as_json:
        click.echo(document.model_dump_json(indent=1))
        return
    inputs.say_warnings()
    console = table_console()
    _print(document, console)
    if inputs.html_path is not None:
        console.print(f"Report: {inputs.html_path}")


def _document(inputs: Inputs, dead: list[int], calibration: Calibration, death: Death) -> FailoverDocument:
    arrays = inputs.arrays
    result = predict_failover(arrays, dead, calibration, death)
    lives = most_live(len(set(dead)), arrays.broker_count)
    within = unavailable_range(death, calibration, most_live=lives)
    names = " and ".join(str(arrays.broker_ids[each]) for each in dead)
    order = np.argsort(-result.nic_share_after, kind="stable").tolist()
    return FailoverDocument(
        scenario=_scenario(names, len(dead), arrays.broker_count, death),
        cluster=cluster_summary(arrays),
        warnings=inputs.warnings,
        system=calibration.system,
        death=death,
        unavailable_s=result.unavailable_s,
        unavailable_range=interval(within, result.unavailable_s),
        widest=within.widest,
        unavailable_s_by_death={each: unavailable_s(each, calibration, most_live=lives) for each in Death},
        lost_leader=int(result.lost_leader.sum()),
        under_replicated=int(result.under_replicated.sum()),
        leaderless=int(result.is_leaderless.sum()),
        leaderless_partitions=_names(arrays, result.is_leaderless),
        below_min_isr=int(result.below_min_isr.sum()),
        below_min_isr_partitions=_names(arrays, result.below_min_isr),
        brokers=[
            BrokerLoad(
                broker=int(arrays.broker_ids[each]),
                is_dead=each in dead,
                leaders_before=int(result.leaders_before[each]),
                leaders_after=int(result.leaders_after[each]),
                nic_share_before=float(result.nic_share_before[each]),
                nic_share_after=float(result.nic_share_after[each]),
                headroom_before=finite(float(result.headroom_before[each])),
                headroom_after=finite(float(result.headroom_after[each])),
            )
            for each in order
        ],
    )


def _scenario(names: str, count: int, of: int, death: Death) -> str:
    one = count == 1
    if one:
        return f"The {death.value} of broker {names} of {of} dies, and is not replaced"
    several = {Death.PROCESS: "processes", Death.HOST: "hosts"}[death]
    return f"The {several} of brokers {names} of {of} die, and are not replaced"


def _names(arrays: ClusterArrays, which: Bools) -> list[str]:
    return [arrays.partition_name(int(each)) for each in np.flatnonzero(which)[:NAMES_MAX]]


def _sentences(document: FailoverDocument) -> list[str]:
    takes = clause(document.lost_leader, "partition", "takes", "take")
    found_range = document.unavailable_range
    within = f" (in 80 % of the cases {between(found_range.low, found_range.high)})" if document.widest else ""
    lost = f"{takes} nothing for {duration(document.unavailable_s)}{within}, until"
    found = [f"{lost} {_noticed(document)} and another replica leads."] if document.lost_leader else []
    found.append(_other_death(document))
    if document.leaderless:
        found.append(
            f"{clause(document.leaderless, 'partition', 'has', 'have')} no replica in sync left, and no leader until "
            f"one comes back: {_some(document.leaderless_partitions)}."
        )
    if document.below_min_isr:
        falls = clause(document.below_min_isr, "partition", "falls", "fall")
        named = _some(document.below_min_isr_partitions)
        found.append(f"{falls} below min.insync.replicas, so that producers with acks=all are refused: {named}.")
    else:
        found.append("No partition falls below min.insync.replicas: all that have a leader continue to take records.")
    found.append(f"{clause(document.under_replicated, 'partition', 'has', 'have')} a replica less.")
    return found


def _noticed(document: FailoverDocument) -> str:
    if document.death is Death.HOST:
        return "the session of a silent broker has ended"
    if document.unavailable_s < document.unavailable_s_by_death[Death.HOST]:
        return "the controllers see that a listener refuses connections"
    return "the broker's session has ended (Apache Kafka does not look at refused connections)"


def _other_death(document: FailoverDocument) -> str:
    (other,) = set(Death) - {document.death}
    after = duration(document.unavailable_s_by_death[other])
    same = "it would be the same" if after == duration(document.unavailable_s) else f"it would be {after}"
    what = "the host died, not the process alone" if other is Death.HOST else "the process alone died, not the host"
    return f"If {what}, {same} (--death {other.value})."


def _some(names: list[str], shown_max: int = 5) -> str:
    return ", ".join(names[:shown_max]) + (", ..." if len(names) > shown_max else "")


def _print(document: FailoverDocument, console: Console) -> None:
    console.print(f"[bold]{document.scenario}[/]", highlight=False)
    for line in _sentences(document):
        console.print(line, highlight=False)
    table = Table(title="Load, the fullest brokers first", title_justify="left")
    table.add_column("broker", no_wrap=True)
    for heading in ("leaders\nbefore", "after", "NIC in use\nbefore", "after", "producers may grow\nbefore", "after"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in document.brokers[:BROKERS_SHOWN]:
        table.add_row(*_cells(row), style="dim" if row.is_dead else "red" if row.nic_share_after > 1 else None)
    console.print(table)


def _cells(row: BrokerLoad) -> tuple[str, ...]:
    after = ("dead", "", "") if row.is_dead else _load(row.leaders_after, row.nic_share_after, row.headroom_after)
    before = _load(row.leaders_before, row.nic_share_before, row.headroom_before)
    return (str(row.broker), *(cell for pair in zip(before, after, strict=True) for cell in pair))


def _load(leaders: int, nic_share: float, headroom: float | None) -> tuple[str, str, str]:
    return f"{leaders:,}", share(nic_share), share(headroom)


def failover_page(document: FailoverDocument, made: Made) -> str:
    """Return the whole file. MissingExtraError."""
    figures = [
        Tile(
            f"{document.lost_leader:,}",
            f"partitions that lost their leader, for {duration(document.unavailable_s)}: death of the "
            f"{document.death.value}",
        ),
        Tile(f"{document.leaderless:,}", "without a leader, until a replica comes back"),
        Tile(f"{document.below_min_isr:,}", "refuse producers: below min.insync.replicas"),
        Tile(f"{document.under_replicated:,}", f"under-replicated, of {document.cluster.partitions:,} partitions"),
    ]
    text = (
        "What producers, consumers, replication and tiering take of each broker's network card, in its fuller "
        "direction, before and after. At the dotted line it is full."
    )
    with needing("model"):
        load = section("Who carries the load", quiet(text), load_chart(document.brokers))
    first, *more = _sentences(document)
    is_bad = document.leaderless or document.below_min_isr
    answer = verdict(first, "bad" if is_bad else "good", *more)
    return whole_page(document.scenario, answer, document.cluster, [tiles(figures), load], document.warnings, made)
