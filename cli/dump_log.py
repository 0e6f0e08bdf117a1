"""`tierfetch dump-log`: shows what the files of a log hold, without a broker. The rows are made in `dump_rows`."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from ..log.core import CorruptFileError
from ..protocol import CorruptRecordError
from .dump_rows import LogFile, batch_rows, entry_rows, parse_path, record_rows, text_lines

_HELP = """Show what the files of a log hold: a broker's log directory, a tier, an index cache.

\b
  .log .checkpoint         record batches, and with --records their records
  .index .timeindex        offset and time index
  .txnindex                aborted transactions
  .snapshot                idempotent and transactional producers
  leader-epoch-checkpoint  leader epochs and where they start

The text is that of kafka-dump-log. A damaged file is named with the byte where its first bad batch begins, and the
exit code is 1; the other files are still shown. Large files take little memory, and a broker may be writing to them.

\b
  tierfetch dump-log data/orders-0/*.log data/orders-0/*.index
  tierfetch dump-log --records data/orders-0/00000000000000000000.log | less
  tierfetch dump-log --cluster-metadata-decoder data/__cluster_metadata-0/*.log
\b
With --json a line is one object. With --records --json it is a record, with these keys:
  offset timestamp key value headers producer_id leader_epoch control transactional codec
key and value are base64 or null, headers a list of [name, base64 or null]. Values alone:
  tierfetch dump-log --records --json FILE | jq -r 'select(.control | not) | .value | @base64d'
"""


@click.command("dump-log", help=_HELP)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(exists=True, dir_okay=False))
@click.option("--records", is_flag=True, help="Show the records in each batch (.log and .checkpoint only).")
@click.option(
    "--cluster-metadata-decoder", "decodes", is_flag=True, help="Show what the records of __cluster_metadata say."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def dump_log(files: tuple[str, ...], records: bool, decodes: bool, as_json: bool) -> None:
    records = records or decodes
    log_files = [_parse(path, records) for path in files]
    faults = [fault for log_file in log_files if (fault := _dump(log_file, records, as_json, decodes))]
    for fault in faults:
        click.echo(f"error: {fault}", err=True)
    if faults:
        raise SystemExit(1)


def _parse(path: str, records: bool) -> LogFile:
    try:
        log_file = parse_path(path)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if records and not log_file.holds_batches:
        raise click.UsageError(f"{path} holds no records: leave out --records, or the file")
    return log_file


def _dump(log_file: LogFile, records: bool, as_json: bool, decodes: bool) -> str | None:
    """Write the file's lines to stdout; the fault that ended it early, if one did."""
    try:
        with Path(log_file.path).open("rb") as file:
            if as_json:
                lines = _json_lines(log_file, file, records, decodes)
            else:
                lines = text_lines(log_file, file, with_records=records, value_text=_metadata_text if decodes else None)
            for line in lines:
                sys.stdout.write(line + "\n")
    except CorruptRecordError as error:
        return f"{log_file.path}: byte {error.position}: {error.reason}"
    except CorruptFileError as error:
        return str(error)
    return None


def _json_lines(log_file: LogFile, file: BinaryIO, records: bool, decodes: bool) -> Iterator[str]:
    if records:
        return (json.dumps(_with_metadata(row) if decodes else row) for row in record_rows(file))
    rows = batch_rows(file) if log_file.holds_batches else entry_rows(log_file, file)
    return (json.dumps({"file": log_file.path, **row}) for row in rows)


def _metadata_text(value: bytes) -> str:
    return json.dumps(_metadata(value), separators=(",", ":"))


def _with_metadata(row: dict[str, object]) -> dict[str, object]:
    """`metadata` in place of the value's bytes."""
    if row["control"] or row["value"] is None:
        return row
    shown = {key: value for key, value in row.items() if key != "value"}
    return {**shown, "metadata": _metadata(base64.b64decode(str(row["value"])))}


def _metadata(value: bytes) -> dict[str, object]:
    from ..controller.records import MetadataRecordError, record_row

    try:
        return record_row(value)
    except MetadataRecordError as error:
        return {"unknown": str(error)}
