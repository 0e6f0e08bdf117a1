"""DescribeUserScramCredentials, DescribeAcls and DescribeClientQuotas: a broker answers from its own image; the active
controller alters.
"""

from __future__ import annotations

from ...controller import describe_acls, describe_client_quotas, describe_user_scram_credentials
from ...protocol.messages.quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from ...protocol.messages.security import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from ...protocol.net import RequestContext
from ..cluster.view import ClusterView


class UserHandlers:
    """Answers from the image of `view`."""

    def __init__(self, view: ClusterView, *, has_authorizer: bool = False) -> None:
        self._view = view
        self._has_authorizer = has_authorizer

    async def describe_acls(self, _: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
        """Return the ACLs that the request's filter accepts."""
        return describe_acls(self._view.image.acls, request, has_authorizer=self._has_authorizer)

    async def describe_scram(
        self, _: RequestContext, request: DescribeUserScramCredentialsRequest
    ) -> DescribeUserScramCredentialsResponse:
        """Return which SCRAM credentials users have."""
        return describe_user_scram_credentials(self._view.image.scram, request)

    async def describe_quotas(
        self, _: RequestContext, request: DescribeClientQuotasRequest
    ) -> DescribeClientQuotasResponse:
        """Return the quotas that the request's filter accepts."""
        return describe_client_quotas(self._view.image.quotas, request)
