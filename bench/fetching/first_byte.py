"""What the first byte of a fetch from a cold tier takes, beside one round trip to the store, which is far away.

The broker reaches the store through a relay that adds a known delay, so that a fetch takes as long as it makes round
trips one after another. Each probe is of a segment that nothing was read of since the broker began. The smallest
request to the store through the same relay, measured just before, is the round trip that it is compared with.

| where the offset is | what has to come from the tier |
|---|---|
| the first one of a segment | the chunk |
| in the middle, index unknown | the segment's index, and the chunk that it leads to |
| in the middle, index on the broker's disk | the chunk |
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tierfetch.cli.local import TierSettings, poll

from ..consume import wait_moved
from ..lab.relay import relay_process
from ..lab.s3 import BUCKET, S3Server, client_of, s3_server
from ..systems import Cluster, run_tierfetch
from ..workload import create_topic, produce
from .reader import SIZE, TIMEOUT_S, ReadingFailedError, fill
from .requests import fetch_request, request_frame

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

BENCHMARK: Final = "first byte"
START: Final = "first offset of a segment"
MIDDLE: Final = "in the middle, index unknown"
KNOWN: Final = "in the middle, index on the disk"
PLACES: Final = (START, MIDDLE, KNOWN)
GOAL: Final = 1.2
"""At most so many round trips."""
TOPIC: Final = "far-away"
SEGMENT_BYTES: Final = 1 << 20
RECORD_BYTES: Final = 1_000
CONFIGS: Final = {"log.retention.check.interval.ms": "1000"}
SPARE: Final = 4
"""Segments that are read before any is measured: connections and imports are no part of a first byte."""
EMPTY_BYTES_MAX: Final = 200
"""An answer that is no larger has no records: the broker did not wait for the tier any longer."""
DRAIN_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Segment:
    """A remote segment: its first offset, that of the next one, and the key of its log."""

    start_offset: int
    end_offset: int
    key: str

    @property
    def middle(self) -> int:
        return (self.start_offset + self.end_offset) // 2


@dataclass(frozen=True, slots=True)
class Probe:
    """A first byte, and the round trip just before it, in ms."""

    place: str
    first_ms: float
    round_trip_ms: float

    @property
    def round_trips(self) -> float:
        return self.first_ms / self.round_trip_ms


def segments_of(keys: Sequence[str], end_offset: int) -> list[Segment]:
    """Return the segments of one partition by the names of their logs; `end_offset` is that of the last one."""
    named = sorted((int(key.rpartition("/")[2][:20]), key) for key in keys)
    ends = [*(start for start, _ in named[1:]), end_offset]
    return [Segment(start, end, key) for (start, key), end in zip(named, ends, strict=True)]


def arranged(segments: Sequence[Segment], count: int) -> dict[str, list[Segment]]:
    """Return who is probed where: `count` segments for the first offsets and as many for the middle, in turn, from the
    last one down: a reader that comes to a segment from the one before it has had it fetched ahead. Those whose index
    is known are those of the middle again, after the broker has begun again. ValueError if there are too few.
    """
    if len(segments) < 2 * count + SPARE:
        raise ValueError(f"{len(segments)} segments, {2 * count + SPARE} are needed for {count} probes of each place")
    chosen = list(reversed(segments[SPARE : SPARE + 2 * count]))
    return {START: chosen[::2], MIDDLE: chosen[1::2], KNOWN: chosen[1::2]}


def probes(base: Path, round_trip_s: float, count: int) -> Iterator[Probe]:
    """Yield the probes of each place, `count` of each."""
    size_bytes = (2 * count + SPARE + 2) * SEGMENT_BYTES
    with (
        s3_server(base / "far-s3") as server,
        relay_process(server.port, round_trip_s) as port,
        run_tierfetch(base / "far", 1, TierSettings("s3", server.options(port)), CONFIGS) as cluster,
        closing(client_of(port, 1)) as client,
    ):
        places = _written(cluster, server, size_bytes, count)
        for place in (START, MIDDLE):
            yield from _probed(cluster, client, place, places)
        _begin_again(cluster)
        yield from _probed(cluster, client, KNOWN, places)


def _written(cluster: Cluster, server: S3Server, size_bytes: int, count: int) -> dict[str, list[Segment]]:
    """Have a topic in the tier, and forget what the broker keeps of it; return the segments of each place."""
    configs = {"remote.storage.enable": "true", "local.retention.bytes": "1", "segment.bytes": str(SEGMENT_BYTES)}
    create_topic(cluster, [[1]], configs, TOPIC)
    produce(cluster, 1, size_bytes, RECORD_BYTES, topic=TOPIC)
    wait_moved(cluster.data_directory(1), TOPIC, segment_bytes=SEGMENT_BYTES)
    _begin_again(cluster)
    local = min(int(path.stem) for path in (cluster.data_directory(1) / f"{TOPIC}-0").glob("*.log"))
    found = [each for each in segments_of(list(server.sizes(TOPIC, ".log")), local) if each.start_offset < local]
    return {"": found[:SPARE], **arranged(found, count)}


def _begin_again(cluster: Cluster) -> None:
    """Empty the broker's memory; what it keeps on its disk stays."""
    cluster.stop(1)
    cluster.start(1)
    cluster.wait_serving(1)


def _probed(cluster: Cluster, client: S3Client, place: str, places: Mapping[str, Sequence[Segment]]) -> Iterator[Probe]:
    def round_trip(segment: Segment) -> float:
        began = time.perf_counter()
        client.get_object(Bucket=BUCKET, Key=segment.key, Range="bytes=0-0")["Body"].read()
        return (time.perf_counter() - began) * 1000

    with _connected(cluster.port(1)) as first_byte_ms:
        for segment in reversed(places[""]):
            round_trip(segment)
            for _ in poll(TIMEOUT_S, "the broker to serve its partition", 0.1):
                with suppress(ReadingFailedError):
                    first_byte_ms(segment.start_offset)
                    break
        for segment in places[place]:
            round_trip_ms = round_trip(segment)
            offset = segment.start_offset if place == START else segment.middle
            yield Probe(place, first_byte_ms(offset), round_trip_ms)


@contextmanager
def _connected(port: int) -> Iterator[Callable[[int], float]]:
    """Yield what fetches from an offset, and returns when the first byte of the answer came, in ms."""
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def first_byte_ms(offset: int) -> float:
            frame = request_frame(fetch_request(TOPIC, 0, offset))
            began = time.perf_counter()
            connection.sendall(frame)
            size = memoryview(bytearray(SIZE.size))
            fill(connection, size)
            took_ms = (time.perf_counter() - began) * 1000
            left: int = SIZE.unpack(size)[0]
            if left <= EMPTY_BYTES_MAX:
                raise ReadingFailedError(f"offset {offset}: no records came within {took_ms:.0f} ms; a shorter delay?")
            while left:
                left -= len(connection.recv(min(left, DRAIN_BYTES)))
            return took_ms

        yield first_byte_ms
