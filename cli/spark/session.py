"""What the Spark commands share: which tier, which Spark, and faults said in a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, TypeVar

import click

from ...light_dataclass import dataclass
from ...pages import Made
from ...pipeline import local_session
from ...protocol import OUTSIDE, OperatorError
from ..options import OutputFile, json_option, pairs, write_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUIET: Final = {
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}"
}
"""A driver that says what went wrong, and how far it is; no greetings."""
Command = TypeVar("Command", bound=Callable[..., object])


class TierOptions(TypedDict):
    """What `tier_options` passes to a command."""

    location: str
    options: tuple[str, ...]
    topics: tuple[str, ...]
    topics_pattern: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """The options that say which tier, and what of it."""

    location: str
    options: tuple[str, ...]
    topics: tuple[str, ...]
    topics_pattern: str | None

    def table_options(self) -> dict[str, str]:
        """As `spark.read.format("tierfetch")` takes them. UsageError."""
        if self.topics and self.topics_pattern is not None:
            raise click.UsageError("give either --topic or --topics-pattern")
        found = {"location": self.location, **pairs(self.options, "--option", "storage.region=eu-west-1")}
        if self.topics:
            found["topics"] = ",".join(self.topics)
        if self.topics_pattern is not None:
            found["topicsPattern"] = self.topics_pattern
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Spark:
    """The options that say where it runs."""

    master: str
    conf: tuple[str, ...]

    @contextmanager
    def session(self) -> Iterator[SparkSession]:
        """A SparkSession, stopped at the end. ClickException for what a job says, MissingExtraError."""
        settings = {**QUIET, **pairs(self.conf, "--conf", "spark.executor.memory=4g")}
        with _faults():
            session = local_session(self.master, settings)
        try:
            with _faults():
                yield session
        finally:
            session.stop()


def tier_options(command: Command) -> Command:
    return _with(
        command,
        click.argument("location"),
        click.option("--topic", "topics", multiple=True, metavar="NAME", help="Only this topic; may be repeated."),
        click.option("--topics-pattern", metavar="REGEX", help="Only topics whose whole name matches."),
        click.option(
            "--option",
            "options",
            multiple=True,
            metavar="KEY=VALUE",
            help='A table option, as spark.read.format("tierfetch") takes it; storage.KEY for the storage plugin.',
        ),
    )


def spark_options(command: Command) -> Command:
    return _with(
        command,
        click.option(
            "--master", default="local[*]", show_default=True, help="Where Spark runs, such as spark://HOST:7077."
        ),
        click.option(
            "--conf", multiple=True, metavar="KEY=VALUE", help="A config of Spark, such as spark.executor.memory=4g."
        ),
    )


def report_options(*, has_html: bool = True) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        if has_html:
            text = "Write the report here, as one HTML file."
            command = click.option("--html", "html_path", type=OutputFile(), help=text)(command)
        return json_option(command)

    return decorate


def write_page(path: Path | None, render: Callable[[Made], str]) -> None:
    if path is not None:
        write_text(path, render(Made.now()))
        click.echo(f"Report: {path}", err=True)


def _with(command: Command, *options: Callable[[Command], Command]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def _faults() -> Iterator[None]:
    from ...pipeline.jobs import spark_faults

    try:
        with spark_faults():
            yield
    except (OperatorError, *OUTSIDE) as error:
        raise click.ClickException(str(error)) from None
