"""ApiVersions of a broker under controllers: what it offers, the feature levels that follow from it, and what its
cluster runs at (KIP-584).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from uuid import UUID

from ...controller import KRAFT_VERSION, served_features
from ...protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.net import (
    FinalizedFeatures,
    RequestContext,
    SupportedFeature,
    api_versions_error,
    api_versions_response,
)
from ..cluster.view import ClusterView


class VersionsHandler:
    """`apis` are the keys that the listener offers; `epoch` is the metadata offset that this broker has replayed;
    `incarnation_id` shows a controller that probes whether this is still the process that registered; `kraft_version`
    is the quorum's own feature, which no metadata record has.
    """

    def __init__(
        self,
        view: ClusterView,
        apis: Callable[[], Iterable[int]],
        epoch: Callable[[], int],
        incarnation_id: UUID | None = None,
        kraft_version: Callable[[], int] = lambda: 0,
    ) -> None:
        self._view = view
        self._apis = apis
        self._epoch = epoch
        self._incarnation_id = incarnation_id
        self._kraft_version = kraft_version

    async def api_versions(self, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
        levels = dict(self._view.image.features or {})
        if level := self._kraft_version():
            levels[KRAFT_VERSION] = level
        apis = frozenset(self._apis())
        response = api_versions_response(
            apis,
            context.api_version,
            error_code=api_versions_error(request, context.api_version),
            supported_features=[
                SupportedFeature(name, *served) for name, served in sorted(served_features(apis).items())
            ],
            finalized_features=FinalizedFeatures(self._epoch(), levels),
        )
        return replace(response, incarnation_id=self._incarnation_id)
