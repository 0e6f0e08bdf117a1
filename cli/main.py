"""The `tierfetch` command.

Exit codes: 0 done; 1 a check failed or the work could not be done (the message says what and what to do); 2 wrong
usage; 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click
from click.exceptions import Exit

from ..extras import explained
from .lazy_group import LazyGroup

_INTERRUPTED: Final = 130
_COMMANDS = {
    "brokers": ("admin.brokers", "brokers", "List brokers with what they hold; wait for one; remove one."),
    "console": ("console", "console", "Show a cluster as a web page: replicas, the tier, groups, the quorum."),
    "configs": ("admin.configs", "configs", "Show and change configs of topics, brokers and groups."),
    "consume": ("records.consume", "consume", "Print the records of a topic."),
    "delete-records": ("admin.record_deletion", "delete_records", "Delete the records of partitions below an offset."),
    "elect-leaders": (
        "admin.elections",
        "elect_leaders",
        "Have preferred replicas lead, or accept an unclean election.",
    ),
    "features": ("admin.features", "features", "Show and change the cluster's feature levels."),
    "groups": ("groups.command", "groups", "Consumer groups: members, offsets, lag; reset and delete them."),
    "offsets": ("admin.partition_offsets", "offsets", "First, local, tiered, pending and last offset of partitions."),
    "log-dirs": ("admin.log_dirs", "log_dirs", "Show the log directories of brokers and the replicas in them."),
    "plugins": ("plugins", "plugins", "List the installed plugins; show the options of one."),
    "profile": ("profiles.command", "profile", "Name clusters, so that commands need no addresses."),
    "produce": ("records.produce", "produce", "Write lines to a topic, as records."),
    "reassign": ("admin.reassign", "reassign", "Move replicas to other brokers, and watch them arrive."),
    "topics": ("admin.topics", "topics", "List, describe, create, alter, grow, shrink and delete topics."),
    "transactions": ("transactions", "transactions", "Transactions: which are open, which hang; abort one."),
    "broker": ("broker", "broker", "Run a broker until it is asked to stop (SIGTERM or SIGINT)."),
    "cluster": ("cluster", "cluster", "Start a whole cluster on this machine."),
    "controller": ("controller", "controller", "Run a controller until it is asked to stop (SIGTERM or SIGINT)."),
    "demo": ("demo", "demo", "Kill and wipe a follower, bring it back from the tier, time it and prove it equal."),
    "dump-log": ("dump_log", "dump_log", "Show batches, records and indexes of log files, as kafka-dump-log does."),
    "format": ("format", "format_command", "Format the log directories of a controller."),
    "model": ("model", "model", "How long replacement and rebalance take, before you touch a cluster."),
    "random-uuid": ("random_uuid", "random_uuid", "Print a new id for a cluster or a controller's directory."),
    "server": ("server", "server", "Run what process.roles names: a broker, a controller, or both in one process."),
    "quorum": ("quorum", "quorum", "Describe the metadata quorum; add and remove controllers."),
    "spark": ("spark", "spark", "Audit, export and profile a tier on Spark; sweep the model of replacement."),
    "simulate": ("simulate", "simulate", "Run nodes under faults in a deterministic simulation."),
    "tier": ("tier", "tier", "List and verify what is in a remote tier."),
}

_HELP = """Kafka-compatible replication over tiered storage.

\b
A first cluster:
  tierfetch cluster up --brokers 1 --controllers 1

\b
Then use any Kafka client on 127.0.0.1:9092. To see what it is for:
  tierfetch demo

\b
To complete commands and options, in ~/.bashrc (zsh: zsh_source, in ~/.zshrc):
  eval "$(_TIERFETCH_COMPLETE=bash_source tierfetch)"

Each command explains itself with --help. tierfetch profile --help says which cluster a command asks.
"""


_EXTRAS = {
    "console": "console",
    "consume": "client",
    "demo": "demo",
    "model": "model",
    "produce": "client",
    "reassign": "model",
    "spark": "spark",
}
"""Which extra is named first where several bring what a command misses."""


class _RootGroup(LazyGroup):
    """What is missing of an extra is said here, for all commands; what interrupts one ends it without a word."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        with _quietly_interrupted():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with _quietly_interrupted():
            return self._invoke(ctx)

    def _invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            found = explained(error, _EXTRAS.get(ctx.invoked_subcommand or ""))
            if found is None:
                raise
            raise click.ClickException(str(found)) from None


@contextmanager
def _quietly_interrupted() -> Iterator[None]:
    """Turn Ctrl-C, at a question too, into exit code 130: click has a word and 1 for it."""
    try:
        yield
    except KeyboardInterrupt:
        raise Exit(_INTERRUPTED) from None
    except click.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise Exit(_INTERRUPTED) from None
        raise


@click.command(
    cls=_RootGroup,
    package=__package__,
    modules=_COMMANDS,
    help=_HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="tierfetch")
def cli() -> None:
    pass


def main(*args: object, **kwargs: object) -> None:
    """What `entry` runs, and `python -m tierfetch.cli.main`."""
    # kio registers strategies for property tests where hypothesis is installed: 0.1 s and 11 MB for every broker.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    cli(*args, **kwargs)


if __name__ == "__main__":
    main()
