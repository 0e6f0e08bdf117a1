"""The quorum's part of a CONTROLLER listener: requests from the wire to the core, its answers back.

A handler reads the request, asks the replica, and writes the answer; bytes of the log or of a snapshot that the answer
names are read in between. Where they are gone by then (truncated, or below the log start since) a Fetch is answered
without records, for the fetcher to ask again, and a FetchSnapshot with its error.

Whatever is wrong with a request is said in the response. A replica that has failed answers NOT_LEADER_OR_FOLLOWER, as
one that does not lead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from ..protocol.api import ApiKey
from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.fetch.messages import FetchRequest as WireFetchRequest
from ..protocol.fetch.messages import FetchResponse as WireFetchResponse
from ..protocol.fetch.messages import SnapshotId
from ..protocol.net.dispatch import Handler, RequestContext, SupportedFeature, api_versions_error, api_versions_response
from ..protocol.requests import CONTROLLER_ENDPOINTS
from ..protocol.wire.primitives import Part
from .core.errors import QuorumFailedError
from .core.messages import (
    BeginQuorumEpochResponse,
    DescribeQuorumResponse,
    EndQuorumEpochResponse,
    FetchResponse,
    FetchSnapshotResponse,
    ReadRange,
    SnapshotRange,
    VoterChangeResponse,
    VoteResponse,
)
from .core.voters import KRAFT_VERSION_DYNAMIC, KRAFT_VERSION_STATIC
from .node import QuorumNode
from .storage.snapshot_file import FileChunk
from .wire import fetch as wire_fetch
from .wire import messages as wire

R = TypeVar("R")

KRAFT_VERSION_FEATURE: Final = SupportedFeature("kraft.version", KRAFT_VERSION_STATIC, KRAFT_VERSION_DYNAMIC)


class QuorumHandlers:
    """The handlers of one replica."""

    def __init__(self, node: QuorumNode) -> None:
        self._node = node

    def table(self) -> dict[int, Handler]:
        """Return the handlers by API key."""
        return {
            ApiKey.VOTE: self._vote,
            ApiKey.BEGIN_QUORUM_EPOCH: self._begin,
            ApiKey.END_QUORUM_EPOCH: self._end,
            ApiKey.FETCH: self._fetch,
            ApiKey.FETCH_SNAPSHOT: self._fetch_snapshot,
            ApiKey.DESCRIBE_QUORUM: self._describe,
            ApiKey.ADD_RAFT_VOTER: self._add_voter,
            ApiKey.REMOVE_RAFT_VOTER: self._remove_voter,
            ApiKey.UPDATE_RAFT_VOTER: self._update_voter,
            ApiKey.DESCRIBE_CLUSTER: self._describe_cluster,
        }

    async def _vote(self, context: RequestContext, body: Any) -> Any:
        return await _answered(context, self._ask(wire.read_vote_request, body, VoteResponse, wire.vote_response))

    async def _begin(self, context: RequestContext, body: Any) -> Any:
        return await _answered(
            context, self._ask(wire.read_begin_request, body, BeginQuorumEpochResponse, wire.begin_response)
        )

    async def _end(self, context: RequestContext, body: Any) -> Any:
        return await _answered(
            context, self._ask(wire.read_end_request, body, EndQuorumEpochResponse, wire.end_response)
        )

    async def _describe(self, context: RequestContext, body: Any) -> Any:
        def write(response: DescribeQuorumResponse) -> wire.Body:
            return wire.describe_response(response, self._node.wall_clock_ms)

        return await _answered(context, self._ask(wire.read_describe_request, body, DescribeQuorumResponse, write))

    async def _describe_cluster(self, context: RequestContext, body: Any) -> Any:
        """The controllers, for admin clients that look for the active one; brokers are not asked for here."""
        if getattr(body, "endpoint_type", CONTROLLER_ENDPOINTS) != CONTROLLER_ENDPOINTS:
            message = "this listener knows the controllers: ask for endpoint type 2"
            return wire.cluster_error(ErrorCode.mismatched_endpoint_type, message)
        return wire.cluster_response(
            self._node.config.cluster_id, self._node.leader_and_epoch, self._node.voters.voters
        )

    async def _remove_voter(self, context: RequestContext, body: Any) -> Any:
        return await _answered(
            context, self._ask(wire.read_remove_request, body, VoterChangeResponse, wire.change_response)
        )

    async def _update_voter(self, context: RequestContext, body: Any) -> Any:
        return await _answered(
            context, self._ask(wire.read_update_request, body, VoterChangeResponse, wire.update_response)
        )

    async def _add_voter(self, context: RequestContext, body: Any) -> Any:
        return await _answered(context, self._add(body))

    async def _add(self, body: Any) -> wire.Body:
        """The new voter itself is asked what it supports: one that cannot be reached must not be counted on."""
        request = wire.read_add_request(body)
        voter = request.voter
        if voter.endpoint is None:
            return {"error_code": ErrorCode.invalid_request, "error_message": "the new voter has no listener"}
        try:
            oldest, newest = await self._node.kraft_versions(voter.endpoint)
        except OSError as error:
            message = f"voter {voter.key} does not answer at {voter.endpoint.host}:{voter.endpoint.port}: {error}"
            return {"error_code": ErrorCode.request_timed_out, "error_message": message}
        voter = replace(voter, min_kraft_version=oldest, max_kraft_version=newest)
        response = await self._node.ask(replace(request, voter=voter))
        assert isinstance(response, VoterChangeResponse), response
        return wire.change_response(response)

    async def _ask(
        self, read: Callable[[Any], Any], body: Any, kind: type[R], write: Callable[[R], wire.Body]
    ) -> wire.Body:
        response = await self._node.ask(read(body))
        assert isinstance(response, kind), (kind, response)
        return write(response)

    # With bytes.

    async def _fetch(self, context: RequestContext, body: WireFetchRequest) -> WireFetchResponse:
        try:
            response = await self._node.ask(wire_fetch.read_fetch_request(body))
        except KafkaError as error:
            return WireFetchResponse(topics=(), error_code=error.code)
        except QuorumFailedError:
            return WireFetchResponse(topics=(), error_code=ErrorCode.not_leader_or_follower)
        assert isinstance(response, FetchResponse), response
        wanted = response.records
        records: Part = b""
        if wanted is not None:
            assert isinstance(wanted, ReadRange), wanted
            records = await self._read(wanted)
        return wire_fetch.fetch_response(body, response, records)

    async def _read(self, wanted: ReadRange) -> Part:
        """A slice of the log, which the server sends and releases."""
        try:
            return await self._node.log.read(
                wanted.start_offset, max_bytes=wanted.max_bytes, max_offset=wanted.end_offset
            )
        except KafkaError:
            return b""

    async def _fetch_snapshot(self, context: RequestContext, body: Any) -> Any:
        return await _answered(context, self._snapshot(body))

    async def _snapshot(self, body: Any) -> wire.Body:
        request = wire_fetch.read_fetch_snapshot_request(body)
        response = await self._node.ask(request)
        assert isinstance(response, FetchSnapshotResponse), response
        chunk: FileChunk | None = None
        if isinstance(response.chunk, SnapshotRange):
            wanted = response.chunk
            snapshot_id = SnapshotId(wanted.snapshot_id.offset, wanted.snapshot_id.epoch)
            try:
                chunk = await self._node.log.snapshots.chunk(snapshot_id, wanted.position, wanted.max_bytes)
            except KafkaError as error:
                response = replace(response, error=error.code)
        return wire_fetch.fetch_snapshot_response(response, request.snapshot_id, chunk)


def api_versions_handler(apis: Callable[[], frozenset[int]]) -> Handler:
    """ApiVersions of a controller listener: says which `kraft.version` this node supports."""

    async def api_versions(context: RequestContext, request: Any) -> Any:
        return api_versions_response(
            apis(),
            context.api_version,
            error_code=api_versions_error(request, context.api_version),
            supported_features=[KRAFT_VERSION_FEATURE],
        )

    return api_versions


async def _answered(context: RequestContext, answer: Awaitable[wire.Body]) -> wire.Body:
    try:
        return await answer
    except KafkaError as error:
        return wire.error_body(context.api, error.code, error.message)
    except QuorumFailedError as error:
        return wire.error_body(context.api, ErrorCode.not_leader_or_follower, str(error))
