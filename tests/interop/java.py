"""Kafka's own tools and classes on files that we wrote."""

from __future__ import annotations

import io
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tierfetch.bench.lab.jars import kafka_jars
from tierfetch.bench.lab.kafka import run_tool
from tierfetch.cli.command_config import VARIABLE
from tierfetch.cli.dump_rows import parse_path, text_lines
from tierfetch.tests.interop.clients import TIMEOUT_S

SUFFIXES = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
_IMPORTS = """
import java.nio.ByteBuffer;
import java.nio.file.*;
import org.apache.kafka.common.*;
import org.apache.kafka.server.log.remote.storage.*;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager.IndexType;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
"""
_PAYLOAD = re.compile(r"(?<=\|)(.* headerKeys: \[[^\]]*\])(?! endTxnMarker).*")
_DONE = "script ran to its end"
_FIRST_OFFSET_COMPLAINT = re.compile(r"^Non-consecutive offsets in .*\n  -1 is followed by \d+\n", re.MULTILINE)
"""Kafka says this, with `--deep-iteration`, of every segment of its own too that does not begin at offset 0."""


def kafka_dump(files: Iterable[Path], *options: str) -> dict[Path, list[str]]:
    """What `kafka-dump-log` prints of each file. What it complains about in the end is left with the last one."""
    listed = ",".join(str(path) for path in files)
    output = run_tool("org.apache.kafka.tools.DumpLogSegments", "--files", listed, *options)
    sections: dict[Path, list[str]] = {}
    lines: list[str] = []
    for line in _FIRST_OFFSET_COMPLAINT.sub("", output).splitlines():
        if line.startswith("Dumping "):
            lines = sections.setdefault(Path(line.removeprefix("Dumping ")), [])
        else:
            lines.append(line)
    return sections


def our_dump(files: Iterable[Path], *, with_records: bool = False) -> dict[Path, list[str]]:
    """What `tierfetch dump-log` prints of each file."""
    return {
        path: list(text_lines(parse_path(str(path)), io.BytesIO(path.read_bytes()), with_records=with_records))[1:]
        for path in files
    }


def check_by_kafka(*directories: Path) -> dict[Path, list[str]]:
    """Every file of these partitions is right in Kafka's eyes, and says there what it says in ours, payloads aside.
    Empty indexes are left out: Kafka only says that they are empty.
    """
    files = [
        path
        for directory in directories
        for path in sorted(directory.iterdir())
        if path.suffix in SUFFIXES and path.stat().st_size
    ]
    ours = {
        path: [_PAYLOAD.sub(r"\1", line) for line in lines]
        for path, lines in our_dump(files, with_records=True).items()
    }
    assert kafka_dump(files, "--deep-iteration") == ours
    if indexes := [path for path in files if path.suffix in {".index", ".timeindex"}]:
        assert kafka_dump(indexes, "--verify-index-only") == {path: [] for path in indexes}
        sane = kafka_dump(indexes, "--index-sanity-check")
        assert sane == {path: [f"{path} passed sanity check."] for path in indexes}
    return ours


def kafka_tool(name: str, servers: str, *arguments: str, stdin: str = "") -> str:
    """Run one of Kafka's tools on a cluster, with the client's file that our commands have too; return its output."""
    file = os.environ.get(VARIABLE)
    login = () if file is None else ("--command-config", file)
    return run_tool(name, "--bootstrap-server", servers, *login, *arguments, stdin=stdin)


def run_jshell(script: str) -> list[str]:
    """The lines that a script prints, with Kafka's classes imported. Any exception or compile error fails."""
    class_path = ":".join(str(path) for path in sorted(kafka_jars().glob("*.jar")))
    options = [
        f"--class-path={class_path}",
        "-R-Xmx256m",
        "-J-Xmx256m",
        "-R-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    ]
    done = subprocess.run(
        ["jshell", "-s", *options, "-"],
        input=f'{_IMPORTS}\n{script}\nSystem.out.println("{_DONE}");\n/exit\n',
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    complaints = [line for line in done.stderr.splitlines() if line.startswith(("Exception", "Error"))]
    assert not complaints, done.stderr
    *lines, last = done.stdout.splitlines()
    assert last == _DONE, done.stdout + done.stderr
    return lines
