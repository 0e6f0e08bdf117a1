"""`tierfetch reassign`: plan, move replicas in waves, watch them arrive, pause, resume, cancel, roll back.

Plans are the JSON of kafka-reassign-partitions, with the rest of a plan under one key more (`planning.plan_file`).
What a running plan has to remember is in a journal beside it (`planning.journal`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypedDict, TypeVar, Unpack

import click
from rich.table import Table

from ...model import Past
from ...planning import (
    ENDED,
    ClusterState,
    ConfigValue,
    DirectoryMove,
    Entry,
    Event,
    Header,
    Journal,
    JournalError,
    Key,
    Outcome,
    PlanFile,
    PlanFileError,
    Standing,
    config_keys,
    directories_of,
    entries_of,
    is_complete,
    replicas_of,
    signs_of_others,
    sizes_differ,
    standing,
    to_stop,
    waves_again,
    what_is_left,
)
from ...protocol import OUTSIDE
from ..cluster_session import Admin, bootstrap_option, run
from ..lazy_group import check_name
from ..model.quantities import clause, count
from ..options import FiniteRange, json_option, report, table_console, throttle_rate, wave_option
from .outlook_text import HISTORY_NAME, history_option, keep_if_possible, outcome_text
from .plan_notes import noted
from .reassign_cluster import PlanCluster, under_way
from .reassign_cluster import reassign as ask_controller
from .reassign_journal import JournalFile, default_path, owned, to_type
from .reassign_run import Done, PlanRun, ProgressBar, now_ms, remainders

Command = TypeVar("Command", bound=Callable[..., object])
_CHANGED: Final = {Standing.GONE, Standing.FOREIGN}
"""The standings that another plan or operator caused."""


def plan_argument(command: Command) -> Command:
    """The plan and its journal."""
    journal = click.option(
        "--journal",
        "journal_path",
        type=click.Path(path_type=Path, dir_okay=False),
        help="The journal of the execution; PLAN_FILE.journal by default.",
    )
    return click.argument("plan_file", type=click.Path(path_type=Path, dir_okay=False))(journal(command))


class ReassignGroup(click.Group):
    """The module of `plan` imports much, and is imported when it is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), "plan"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name != "plan":
            return super().get_command(ctx, cmd_name)
        from .reassign_plan import plan

        return plan

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        check_name(args, self.list_commands(ctx), ctx)
        return super().resolve_command(ctx, args)


@click.group("reassign", cls=ReassignGroup)
def reassign() -> None:
    """Move replicas to other brokers, and between the log directories of one (log_dirs in the plan, as Kafka has it).

    \b
      tierfetch reassign plan --replace 3 --with 7 --out plan.json
      tierfetch reassign execute plan.json     in waves, throttled; returns when every replica has moved
      tierfetch reassign pause plan.json       lets the moves under way finish, and begins no further ones
      tierfetch reassign resume plan.json      continues, also after a crash
      tierfetch reassign cancel plan.json      cancels the moves under way; what has moved stays
      tierfetch reassign rollback plan.json    moves all of it back to where it was
      tierfetch reassign status plan.json      how far it is
      tierfetch reassign list                  what is under way in the cluster

    \b
    A plan that moves the first replica of orders-0 to another log directory of broker 1:
      {"version": 1, "partitions": [
        {"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["/disk2", "any"]}]}
    """


@reassign.command("list")
@bootstrap_option
@json_option
def list_reassignments(bootstrap: tuple[str, ...], as_json: bool) -> None:
    """List the reassignments that are under way in the cluster, whichever tool began them.

    \b
      tierfetch reassign list
    """
    rows = run(bootstrap, under_way)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    if not rows:
        click.echo("no reassignment is under way")
        return
    table = Table("topic", "partition", "replicas", "adding", "removing")
    for row in rows:
        cells = [" ".join(map(str, value)) if isinstance(value, list) else str(value) for value in row.values()]
        table.add_row(*cells)
    table_console().print(table)


class _Execution(TypedDict):
    """The options of `reassign execute` about how a plan is carried out."""

    throttle: float | None
    partitions_per_broker: int
    warm_timeout: float
    changes_factor: bool
    shares_brokers: bool
    no_wait: bool
    history_path: Path | None


class _Continuation(TypedDict):
    """The options of `reassign resume` about how a plan is carried out from now on."""

    throttle: float | None
    partitions_per_broker: int | None
    warm_timeout: float | None
    shares_brokers: bool
    skip_changed: bool
    history_path: Path | None


@reassign.command("execute", short_help="Move the replicas as a plan says, wave by wave.")
@plan_argument
@click.option(
    "--throttle",
    type=throttle_rate,
    metavar="RATE",
    help="Throttle of each broker in place of the plan's, such as '50 MiB/s'.",
)
@wave_option("Partitions that come to, or leave, a broker in one wave, if the plan has no waves.")
@click.option(
    "--warm-timeout",
    type=FiniteRange(min=0),
    default=900.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for new leaders that are still warming from the tier.",
)
@click.option(
    "--allow-replication-factor-change", "changes_factor", is_flag=True, help="Let the plan change replica counts."
)
@click.option(
    "--share-brokers",
    "shares_brokers",
    is_flag=True,
    help="Run even if other plans move replicas on the same brokers, or throttle them; their configs are restored.",
)
@click.option("--no-wait", is_flag=True, help="Begin all moves without throttle or journal, and return at once.")
@history_option
@bootstrap_option
@json_option
def execute(
    plan_file: Path, journal_path: Path | None, bootstrap: tuple[str, ...], as_json: bool, **options: Unpack[_Execution]
) -> None:
    """Move the replicas as PLAN_FILE says, wave by wave.

    Survives the end of this command: what is under way continues, and `resume` does the rest.

    \b
      tierfetch reassign execute plan.json --throttle '50 MiB/s'
    """
    plan = _read(plan_file)
    path = journal_path or default_path(plan_file)
    history = options["history_path"] or plan_file.with_name(HISTORY_NAME)
    if not options["no_wait"]:
        _check_free(path, plan_file)

    async def work(admin: Admin) -> Done | int:
        cluster = PlanCluster(admin)
        state = await _state_for(cluster, plan)
        entries, problems = entries_of(
            plan,
            state,
            changes_factor=options["changes_factor"],
            partitions_per_broker=options["partitions_per_broker"],
        )
        if problems:
            raise click.ClickException("\n".join([f"{plan_file}: nothing was begun:", *problems]))
        throttle = options["throttle"] or plan.details.throttle_bytes_per_s
        moved = {entry.topic for entry in entries}
        brokers = _brokers(entries)
        is_set = (throttle is not None or plan.details.roll is not None) and not options["no_wait"]
        old_configs = await cluster.configs(config_keys(sorted(moved), brokers, entries)) if is_set else ()
        if not options["shares_brokers"]:
            _refuse(plan_file, signs_of_others(state, {entry.key for entry in entries}, brokers, old_configs))
        if options["no_wait"]:
            moves = [DirectoryMove(each.key, broker, path) for each in entries for broker, path in each.directories]
            if refused := await cluster.move_directories(moves):
                raise click.ClickException("\n".join([f"{plan_file}: nothing was reassigned:", *refused]))
            return await _begin_all(admin, entries)
        header = Header(
            cluster_id=cluster.cluster_id,
            plan=plan_file.name,
            created_at_ms=now_ms(),
            topic_ids={topic: found.topic_id for (topic, _), found in state.partitions.items() if topic in moved},
            entries=tuple(entries),
            throttle_bytes_per_s=None if throttle is None else max(1, int(throttle)),
            roll=plan.details.roll,
            warm_wait_s=options["warm_timeout"],
            old_configs=old_configs,
            shares_brokers=options["shares_brokers"],
            outlook=plan.details.outlook,
            dead=tuple(each for each in brokers if each not in state.live),
            differs=await _said_differences(cluster, plan, entries),
        )
        with owned(path):
            _check_free(path, plan_file)
            return await _run_plan(cluster, plan_file, JournalFile.create(path, header), history)

    _report_execution(run(bootstrap, work), to_type("resume", plan_file, path), as_json=as_json)


def _refuse(plan_file: Path, others: Sequence[str]) -> None:
    """Begin nothing beside other plans. ClickException, if there are signs of any."""
    if others:
        hint = "or give --share-brokers, and it begins all the same"
        raise click.ClickException("\n".join([f"{plan_file}: nothing was begun:", *others, hint]))


async def _said_differences(cluster: PlanCluster, plan: PlanFile, entries: Sequence[Entry]) -> tuple[str, ...]:
    """Say in what the cluster is not the one that was predicted for, if something was."""
    expected = {entry.key: entry.held_bytes for entry in entries if entry.held_bytes is not None}
    if plan.details.outlook is None or not (said := sizes_differ(expected, await cluster.held_bytes(expected))):
        return ()
    click.echo(f"note: the cluster is not as predicted for: {said}", err=True)
    return (said,)


def _report_execution(done: Done | int, resume: str, *, as_json: bool) -> None:
    if isinstance(done, int):
        report(as_json, {"begun": done}, f"{clause(done, 'partition', 'begins', 'begin')} to move")
    else:
        _report(done, resume, as_json=as_json)


async def _state_for(cluster: PlanCluster, plan: PlanFile) -> ClusterState:
    """Return what a plan is checked against; where replicas are only of partitions for which it names directories."""
    state = await cluster.state(sorted({each.topic for each in plan.partitions}))
    named = [each for each in plan.partitions if directories_of(each)]
    if not named:
        return state
    replicas = [
        (each.key, broker)
        for each in named
        for broker in {*each.replicas, *(state.partitions[each.key].replicas if each.key in state.partitions else ())}
    ]
    return await cluster.with_directories(state, replicas)


async def _begin_all(admin: Admin, entries: Sequence[Entry]) -> int:
    """How many; all of them or none. ClickException names those that the controller refused."""
    refused = await ask_controller(admin, [(entry.key, entry.target) for entry in entries])
    if refused:
        stuck = await ask_controller(admin, [(entry.key, None) for entry in entries])
        others = ["and these cannot be taken back:", *stuck] if stuck else ["the others were taken back: nothing moves"]
        raise click.ClickException("\n".join([*refused, *others]))
    return len(entries)


@reassign.command("resume", short_help="Continue a plan that was paused or stopped.")
@plan_argument
@click.option(
    "--throttle", type=throttle_rate, metavar="RATE", help="Throttle of each broker from now on, such as '50 MiB/s'."
)
@wave_option(
    "Partitions that come to, or leave, a broker in one wave: divide what has not begun into such waves.", None
)
@click.option(
    "--warm-timeout",
    type=FiniteRange(min=0),
    metavar="SECONDS",
    help="How long to wait from now on for new leaders that are still warming from the tier.",
)
@click.option(
    "--share-brokers",
    "shares_brokers",
    is_flag=True,
    help="From now on, do not wait for other plans that move replicas on the same brokers.",
)
@click.option("--skip-changed", is_flag=True, help="Skip partitions that another client has changed or deleted.")
@history_option
@bootstrap_option
@json_option
def resume(
    plan_file: Path,
    journal_path: Path | None,
    bootstrap: tuple[str, ...],
    as_json: bool,
    **options: Unpack[_Continuation],
) -> None:
    """Continue a plan that was paused or stopped, or whose process has died.

    \b
      tierfetch reassign resume plan.json
      tierfetch reassign resume plan.json --throttle '20 MiB/s' --partitions-per-broker 5

    For a plan that has ended, it restores configs that could not be restored on dead brokers; no replica moves again.
    """
    file = JournalFile.open(journal_path or default_path(plan_file))
    is_done = file.journal.outcome in ENDED
    if file.journal.outcome in ENDED and not file.journal.left:
        begin = to_type("execute", plan_file, journal_path)
        text = f"nothing to resume: {plan_file} is {file.journal.outcome}; `{begin}` begins it again"
        report(as_json, {"outcome": str(file.journal.outcome), "partitions": 0, "problems": [], "notes": []}, text)
        return

    async def work(admin: Admin) -> Done:
        cluster = await _its_cluster(admin, file)
        with file.owned():
            file.append(await _resumption(cluster, file.journal, options, is_done=is_done))
            history = None if is_done else options["history_path"] or plan_file.with_name(HISTORY_NAME)
            return await _run_plan(cluster, plan_file, file, history)

    _report(run(bootstrap, work), to_type("resume", plan_file, file.path), as_json=as_json)


async def _resumption(cluster: PlanCluster, journal: Journal, options: _Continuation, *, is_done: bool) -> Event:
    """Return what is asked for from now on; of a plan that has ended nothing moves, whatever is asked for."""
    header = journal.header
    skipped: tuple[Key, ...] = ()
    if is_done or options["skip_changed"]:
        skipped = await _to_leave_alone(cluster, journal, is_done=is_done)
    rate = None if options["throttle"] is None else max(1, int(options["throttle"]))
    before = () if rate is None or header.old_configs else await _old_configs(cluster, header)
    per_broker = None if is_done else options["partitions_per_broker"]
    return Event(
        event="resume",
        at_ms=now_ms(),
        skipped=skipped,
        throttle_bytes_per_s=rate,
        old_configs=before,
        warm_wait_s=options["warm_timeout"],
        shares_brokers=options["shares_brokers"],
        waves=() if per_broker is None else waves_again(journal, await plan_state(cluster, header), per_broker),
    )


@reassign.command("status")
@plan_argument
@bootstrap_option
@json_option
def status(plan_file: Path, journal_path: Path | None, bootstrap: tuple[str, ...], as_json: bool) -> None:
    """Show how far a plan is, in whichever process it runs.

    \b
      tierfetch reassign status plan.json
    """
    file = JournalFile.open(journal_path or default_path(plan_file))
    journal, header = file.journal, file.journal.header
    state = run(bootstrap, lambda admin: plan_state(PlanCluster(admin), header))
    entries = [entry for entry in header.entries if entry.key not in journal.skipped]
    left = what_is_left(journal, state, now_ms())
    standings = [progress_of(entry, header.topic_ids[entry.topic], state) for entry in entries]
    document = {
        "doing": journal.mode.value,
        "outcome": journal.outcome and journal.outcome.value,
        "is_carried_out": file.is_owned(),
        "partitions": {each.name.lower(): standings.count(each) for each in Standing},
        "left": left,
        "waves": 1 + max((entry.wave for entry in header.entries), default=0),
        "notes": remainders(journal),
    }
    if as_json:
        click.echo(json.dumps(document, indent=1))
        return
    click.echo(doing_text(file, plan_file, is_carried_out=document["is_carried_out"] is True))
    for each in Standing:
        if standings.count(each):
            click.echo(f"  {each.name.lower()}: {count(standings.count(each), 'partition')}")
    for what in left:
        click.echo(f"left: {what}")
    for note in remainders(journal):
        click.echo(f"note: {note}")


async def plan_state(cluster: PlanCluster, header: Header) -> ClusterState:
    state = await cluster.state(sorted(header.topic_ids))
    replicas = replicas_of(header.entries)
    return await cluster.with_directories(state, replicas) if replicas else state


def progress_of(entry: Entry, topic_id: str, state: ClusterState) -> Standing:
    """Return the standing; of a replica that is not yet in its log directory, that it moves."""
    found = standing(entry, topic_id, state)
    return Standing.MOVING if found is Standing.DONE and not is_complete(entry, topic_id, state) else found


def doing_text(file: JournalFile, plan_file: Path, *, is_carried_out: bool) -> str:
    """What is being done, or how it ended."""
    journal = file.journal
    if is_carried_out:
        return journal.mode.value
    if journal.outcome in ENDED:
        return str(journal.outcome)
    how = f"{journal.outcome}" if journal.outcome else f"{journal.mode.value}, and no process carries it out"
    return f"{how}: `{to_type('resume', plan_file, file.path)}` continues it"


@reassign.command("pause", short_help="Let the moves under way finish, and begin no further ones.")
@plan_argument
@json_option
def pause(plan_file: Path, journal_path: Path | None, as_json: bool) -> None:
    """Let the moves under way finish, and begin no further ones; the running `execute` then ends.

    \b
      tierfetch reassign pause plan.json
    """
    file = JournalFile.open(journal_path or default_path(plan_file))
    if not file.is_owned():
        raise click.ClickException(f"{file.path}: no process is executing this plan: there is nothing to pause")
    file.append(Event(event="pause", at_ms=now_ms()))
    resume = to_type("resume", plan_file, file.path)
    text = f"pausing: what is under way ends first; continue with `{resume}`"
    report(as_json, {"pausing": str(plan_file), "journal": str(file.path)}, text)


@reassign.command("cancel", short_help="Cancel the moves under way of a plan.")
@plan_argument
@bootstrap_option
@json_option
def cancel(plan_file: Path, journal_path: Path | None, bootstrap: tuple[str, ...], as_json: bool) -> None:
    """Cancel the moves under way of PLAN_FILE's partitions; what has moved already stays where it is.

    \b
      tierfetch reassign cancel plan.json

    It works without a journal too: for a plan that was begun with --no-wait, or by kafka-reassign-partitions.
    """
    path = journal_path or default_path(plan_file)
    if journal_path is not None or path.exists():
        _ask("cancel", path, plan_file, bootstrap, as_json=as_json)
        return
    plan = _read(plan_file)
    wanted = {each.key for each in plan.partitions}

    async def work(admin: Admin) -> int:
        moving = [(row["topic"], row["partition"]) for row in await under_way(admin)]
        found = [(key, None) for key in moving if key in wanted]
        cluster = PlanCluster(admin)
        between = to_stop(_as_entries(plan), await _state_for(cluster, plan))
        refused = await ask_controller(admin, found) if found else []
        if refused := [*refused, *await cluster.move_directories(between)]:
            raise click.ClickException("\n".join(refused))
        return len({key for key, _ in found} | {move.key for move in between})

    cancelled = run(bootstrap, work)
    report(as_json, {"cancelled": cancelled}, f"{count(cancelled, 'move')} cancelled")


def _as_entries(plan: PlanFile) -> list[Entry]:
    """Return a plan's partitions, where it is unknown what was before."""
    return [
        Entry(
            topic=each.topic,
            partition=each.partition,
            before=each.replicas,
            target=each.replicas,
            final=each.replicas,
            wave=0,
            directories=directories_of(each),
        )
        for each in plan.partitions
    ]


@reassign.command("rollback", short_help="Cancel the moves under way, and move back what has moved.")
@plan_argument
@bootstrap_option
@json_option
def rollback(plan_file: Path, journal_path: Path | None, bootstrap: tuple[str, ...], as_json: bool) -> None:
    """Cancel the moves under way, and move back what has moved, the last wave first.

    \b
      tierfetch reassign rollback plan.json
    """
    _ask("roll_back", journal_path or default_path(plan_file), plan_file, bootstrap, as_json=as_json)


def _ask(what: str, path: Path, plan_file: Path, bootstrap: tuple[str, ...], *, as_json: bool) -> None:
    """Ask the process that carries the plan out; if there is none, do it here."""
    file = JournalFile.open(path)
    event = Event.model_validate({"event": what, "at_ms": now_ms()})
    if file.is_owned():
        file.append(event)
        report(as_json, {"asked": what, "journal": str(path)}, "asked of the process that carries the plan out")
        return

    async def work(admin: Admin) -> Done:
        cluster = await _its_cluster(admin, file)
        with file.owned():
            file.append(event)
            return await _run_plan(cluster, plan_file, file)

    _report(run(bootstrap, work), to_type("resume", plan_file, file.path), as_json=as_json)


async def _its_cluster(admin: Admin, file: JournalFile) -> PlanCluster:
    """ClickException if it is another one: in that everything would count as deleted."""
    cluster, header = PlanCluster(admin), file.journal.header
    await cluster.state(sorted(header.topic_ids))
    if cluster.cluster_id != header.cluster_id:
        raise click.ClickException(
            f"{file.path} is of cluster {header.cluster_id}, this is {cluster.cluster_id}: check --bootstrap"
        )
    return cluster


async def _old_configs(cluster: PlanCluster, header: Header) -> tuple[ConfigValue, ...]:
    """What is set now of all that a throttle sets, on topics that still exist."""
    state = await cluster.state(sorted(header.topic_ids))
    topics = sorted({topic for topic, _ in state.partitions})
    return await cluster.configs(config_keys(topics, _brokers(header.entries), header.entries))


def _brokers(entries: Sequence[Entry]) -> list[int]:
    return sorted({broker for entry in entries for broker in (*entry.before, *entry.target)})


async def _run_plan(cluster: PlanCluster, plan_file: Path, file: JournalFile, history_path: Path | None = None) -> Done:
    """Run the plan, as the owner of its journal; what was predicted and what was is kept in the history."""
    resume = to_type("resume", plan_file, file.path)
    try:
        with noted(plan_file, file), ProgressBar() as bar:
            done = await PlanRun(cluster, file, bar.show).run()
        return _with_history(done, file.journal, history_path, bar.broken)
    except JournalError as error:
        raise click.ClickException(str(error)) from None
    except OUTSIDE as error:
        raise click.ClickException(
            f"{error}\nwhat is under way continues, and throttles stay set: `{resume}` does the rest, cancel and"
            " rollback end it"
        ) from None
    except asyncio.CancelledError:
        click.echo(f"interrupted: what is under way continues; `{resume}` does the rest", err=True)
        raise


def _with_history(done: Done, journal: Journal, path: Path | None, broken: str) -> Done:
    """Keep what came of a plan's prediction, and say it; nothing of a plan that did not move forward to its end."""
    outlook, ended_ms = journal.header.outlook, journal.leading_at_ms or journal.ended_at_ms
    if path is None or outlook is None or ended_ms is None or done.finish.outcome is not Outcome.DONE:
        return done
    measured_s = replace(journal, ended_at_ms=ended_ms).running_s(ended_ms)
    what = f"reassign {journal.header.plan}"
    past = Past.of(
        outlook,
        measured_s,
        at_ms=ended_ms,
        cluster_id=journal.header.cluster_id,
        what=what,
        broken=broken or "; ".join(journal.changed),
    )
    keep_if_possible(path, past)
    return replace(done, notes=(*done.notes, outcome_text(outlook, measured_s)))


async def _to_leave_alone(cluster: PlanCluster, journal: Journal, *, is_done: bool) -> tuple[Key, ...]:
    """Return the partitions that another client changed; of a plan that is done, all that are not as it left them; of
    one that was taken back, all.
    """
    header = journal.header
    if is_done and journal.outcome is not Outcome.DONE:
        return tuple(entry.key for entry in header.entries)
    state = await plan_state(cluster, header)
    return tuple(
        entry.key
        for entry in header.entries
        if standing(entry, header.topic_ids[entry.topic], state) in _CHANGED
        or (is_done and not is_complete(entry, header.topic_ids[entry.topic], state))
    )


def _read(plan_file: Path) -> PlanFile:
    try:
        return PlanFile.read(plan_file)
    except PlanFileError as error:
        raise click.ClickException(str(error)) from None


def _check_free(path: Path, plan_file: Path) -> None:
    """ClickException while an earlier execution of the plan is not at its end."""
    if path.exists() and JournalFile.open(path).journal.outcome not in ENDED:
        raise click.ClickException(
            f"{path}: this plan was begun already: `{to_type('resume', plan_file, path)}` continues it, cancel and"
            " rollback end it"
        )


def _report(done: Done, resume: str, *, as_json: bool) -> None:
    """Exit code 1 where something could not be done; `resume` is the command that continues."""
    finish = done.finish
    if as_json:
        document = {
            "outcome": finish.outcome.value,
            "partitions": done.partitions,
            "seconds": round(done.seconds, 3),
            "problems": list(finish.problems),
            "notes": list(done.notes),
        }
        click.echo(json.dumps(document, indent=1))
    else:
        for note in done.notes:
            click.echo(f"note: {note}", err=True)
        click.echo(f"{finish.outcome.value}: {count(done.partitions, 'partition')}, {done.seconds:.1f} s")
    if finish.problems:
        more = f"; continue with `{resume}`" if finish.outcome is Outcome.STOPPED else ""
        raise click.ClickException(
            "\n".join([*finish.problems, f"{finish.outcome.value}, and nothing is under way{more}"])
        )
