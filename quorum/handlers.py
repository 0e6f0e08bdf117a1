"""The quorum's part of a CONTROLLER listener: requests from the wire to the core, its answers back.

A handler reads the request, asks the replica, and writes the answer; bytes of the log or of a snapshot that the answer
names are read in between. Where they no longer exist by then (truncated, or below the log start since) a Fetch is
answered without records, for the fetcher to ask again, and a FetchSnapshot with its error.

Whatever is wrong with a request is said in the response. A replica that has failed answers NOT_LEADER_OR_FOLLOWER, as
one that does not lead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, TypeVar

from ..protocol import CONTROLLER_ENDPOINTS, ApiKey, ErrorCode, KafkaError
from ..protocol.fetch import FetchRequest as WireFetchRequest
from ..protocol.fetch import FetchResponse as WireFetchResponse
from ..protocol.fetch import SnapshotId
from ..protocol.messages import quorum as kafka
from ..protocol.messages.cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ..protocol.net import Handler, RequestContext, SupportedFeature, api_versions_error, api_versions_response
from ..protocol.wire import Part
from .core.errors import QuorumFailedError
from .core.messages import (
    AddVoterRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumResponse,
    EndQuorumEpochResponse,
    FetchResponse,
    FetchSnapshotResponse,
    ReadRange,
    Request,
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

ENDPOINT_TYPE_SINCE: Final = 1
"""The version of DescribeCluster that says of whom it asks (KIP-919)."""


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

    async def _vote(self, _: RequestContext, request: kafka.VoteRequest) -> kafka.VoteResponse:
        async def answer() -> kafka.VoteResponse:
            return wire.vote_response(await self._ask(wire.read_vote_request(request), VoteResponse))

        return await _answered(answer(), wire.vote_error)

    async def _begin(self, _: RequestContext, request: kafka.BeginQuorumEpochRequest) -> kafka.BeginQuorumEpochResponse:
        async def answer() -> kafka.BeginQuorumEpochResponse:
            return wire.begin_response(await self._ask(wire.read_begin_request(request), BeginQuorumEpochResponse))

        return await _answered(answer(), wire.begin_error)

    async def _end(self, _: RequestContext, request: kafka.EndQuorumEpochRequest) -> kafka.EndQuorumEpochResponse:
        async def answer() -> kafka.EndQuorumEpochResponse:
            return wire.end_response(await self._ask(wire.read_end_request(request), EndQuorumEpochResponse))

        return await _answered(answer(), wire.end_error)

    async def _describe(self, _: RequestContext, request: kafka.DescribeQuorumRequest) -> kafka.DescribeQuorumResponse:
        async def answer() -> kafka.DescribeQuorumResponse:
            response = await self._ask(wire.read_describe_request(request), DescribeQuorumResponse)
            return wire.describe_response(response, self._node.wall_clock_ms)

        return await _answered(answer(), wire.describe_error)

    async def _describe_cluster(
        self, context: RequestContext, request: DescribeClusterRequest
    ) -> DescribeClusterResponse:
        """The controllers, for admin clients that look for the active one; brokers are not asked for here. Version 0
        has no endpoint type: it asks for what the listener knows.
        """
        if context.api_version >= ENDPOINT_TYPE_SINCE and request.endpoint_type != CONTROLLER_ENDPOINTS:
            message = "this listener knows the controllers: ask for endpoint type 2"
            return wire.cluster_error(ErrorCode.mismatched_endpoint_type, message)
        return wire.cluster_response(
            self._node.config.cluster_id, self._node.status.leader_and_epoch, self._node.status.voters.voters
        )

    async def _remove_voter(
        self, _: RequestContext, request: kafka.RemoveRaftVoterRequest
    ) -> kafka.RemoveRaftVoterResponse:
        async def answer() -> kafka.RemoveRaftVoterResponse:
            return wire.remove_response(await self._ask(wire.read_remove_request(request), VoterChangeResponse))

        return await _answered(answer(), wire.remove_error)

    async def _update_voter(
        self, _: RequestContext, request: kafka.UpdateRaftVoterRequest
    ) -> kafka.UpdateRaftVoterResponse:
        async def answer() -> kafka.UpdateRaftVoterResponse:
            return wire.update_response(await self._ask(wire.read_update_request(request), VoterChangeResponse))

        return await _answered(answer(), wire.update_error)

    async def _add_voter(self, _: RequestContext, request: kafka.AddRaftVoterRequest) -> kafka.AddRaftVoterResponse:
        return await _answered(self._add(wire.read_add_request(request)), wire.add_error)

    async def _add(self, request: AddVoterRequest) -> kafka.AddRaftVoterResponse:
        """The new voter itself is asked what it supports: one that cannot be reached must not be counted on."""
        voter = request.voter
        if voter.endpoint is None:
            return wire.add_error(ErrorCode.invalid_request, "the new voter has no listener")
        try:
            oldest, newest = await self._node.kraft_versions(voter.endpoint)
        except OSError as error:
            message = f"voter {voter.key} does not answer at {voter.endpoint.host}:{voter.endpoint.port}: {error}"
            return wire.add_error(ErrorCode.request_timed_out, message)
        voter = replace(voter, min_kraft_version=oldest, max_kraft_version=newest)
        return wire.add_response(await self._ask(replace(request, voter=voter), VoterChangeResponse))

    async def _ask(self, request: Request, kind: type[R]) -> R:
        response = await self._node.ask(request)
        assert isinstance(response, kind), (kind, response)
        return response

    # With bytes.

    async def _fetch(self, _: RequestContext, body: WireFetchRequest) -> WireFetchResponse:
        try:
            response = await self._ask(wire_fetch.read_fetch_request(body), FetchResponse)
        except KafkaError as error:
            return WireFetchResponse(topics=(), error_code=error.code)
        except QuorumFailedError:
            return WireFetchResponse(topics=(), error_code=ErrorCode.not_leader_or_follower)
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

    async def _fetch_snapshot(
        self, _: RequestContext, request: kafka.FetchSnapshotRequest
    ) -> kafka.FetchSnapshotResponse:
        return await _answered(self._snapshot(request), wire_fetch.fetch_snapshot_error)

    async def _snapshot(self, body: kafka.FetchSnapshotRequest) -> kafka.FetchSnapshotResponse:
        request = wire_fetch.read_fetch_snapshot_request(body)
        response = await self._ask(request, FetchSnapshotResponse)
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

    async def api_versions(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
        return api_versions_response(
            apis(),
            context.api_version,
            error_code=api_versions_error(request, context.api_version),
            supported_features=[KRAFT_VERSION_FEATURE],
        )

    return api_versions


async def _answered(answer: Awaitable[R], refused: Callable[[ErrorCode, str], R]) -> R:
    try:
        return await answer
    except KafkaError as error:
        return refused(error.code, error.message)
    except QuorumFailedError as error:
        return refused(ErrorCode.not_leader_or_follower, str(error))
