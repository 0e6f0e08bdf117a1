"""DescribeUserScramCredentials: a broker answers from its own image, as in Kafka; the active controller alters."""

from __future__ import annotations

from ...controller.core.security.scram import describe_user_scram_credentials
from ...protocol.messages.security import DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse
from ...protocol.net.dispatch import RequestContext
from ..cluster.view import ClusterView


class UserHandlers:
    """Answers from the image of `view`."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    async def describe_scram(
        self, _: RequestContext, request: DescribeUserScramCredentialsRequest
    ) -> DescribeUserScramCredentialsResponse:
        """Return which SCRAM credentials users have."""
        return describe_user_scram_credentials(self._view.image.scram, request)
