"""What operators change last: a quota, a user's credentials, an ACL. Each is set, shown, removed, and shown again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ....broker import Broker
from ....protocol import ErrorCode
from ....protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    DescribeClientQuotasRequest,
    OpData,
)
from ....protocol.messages.security import (
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ...judges.core.truth import ClusterTruth
from .acls import ACL, of_its_principal
from .asker import Asker

USER: Final = "looks"
QUOTA: Final = ("request_percentage", 50.0)
SCRAM_SHA_256: Final = 1
ITERATIONS: Final = 4_096


class Changes:
    """`brokers` are those that run, by id."""

    def __init__(
        self,
        asker: Asker,
        truth: ClusterTruth,
        brokers: Callable[[], Mapping[int, Broker | None]],
    ) -> None:
        self._asker = asker
        self._truth = truth
        self._brokers = brokers

    async def quotas(self) -> list[str]:
        key, value = QUOTA
        entity = (("user", USER),)
        wrong = []
        for is_removed in (False, True):
            data = tuple(
                AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity
            )
            entry = AlterClientQuotasRequestEntryData(
                entity=data, ops=(OpData(key=key, value=value, remove=is_removed),)
            )
            answer = await self._asker.ask_any(AlterClientQuotasRequest(entries=(entry,), validate_only=False))
            code = answer.entries[0].error_code
            found = await self._described_quotas()
            known = {tuple(sorted(each)): dict(values) for each, values in self._truth.image.quotas.items()}
            right = known.get(entity) == (None if is_removed else {key: value})
            if code is not ErrorCode.none or found != known or not right:
                wrong.append(f"removed: {is_removed}, {code.name}: {found} is said, {known} is in the metadata")
        return wrong

    async def _described_quotas(self) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
        answer = await self._asker.ask_any(DescribeClientQuotasRequest(components=(), strict=False))
        return {
            tuple(sorted((each.entity_type, each.entity_name) for each in entry.entity)): {
                each.key: each.value for each in entry.values
            }
            for entry in answer.entries or ()
        }

    async def credentials(self) -> list[str]:
        upsertion = ScramCredentialUpsertion(
            name=USER,
            mechanism=SCRAM_SHA_256,
            iterations=ITERATIONS,
            salt=self._asker.rng.randbytes(16),
            salted_password=self._asker.rng.randbytes(32),
        )
        deletion = ScramCredentialDeletion(name=USER, mechanism=SCRAM_SHA_256)
        wrong = []
        for deletions, upsertions in (((), (upsertion,)), ((deletion,), ())):
            request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
            (result,) = (await self._asker.ask_any(request)).results
            answer = await self._asker.ask_any(DescribeUserScramCredentialsRequest(users=None))
            found = {
                each.user: [(info.mechanism, info.iterations) for info in each.credential_infos]
                for each in answer.results
            }
            right = {USER: [(SCRAM_SHA_256, ITERATIONS)]} if upsertions else {}
            if result.error_code is not ErrorCode.none or found != right:
                wrong.append(f"{result.error_code.name}: {found} is said, {right} was set")
        return wrong

    async def acls(self) -> list[str]:
        """Create an ACL and delete it again; without an authorizer nothing of that is possible."""
        brokers = [each for each in self._brokers().values() if each is not None]
        has_authorizer = any(each.config.authorizer.is_configured for each in brokers)
        code = ErrorCode.none if has_authorizer else ErrorCode.security_disabled
        wrong = []
        (created,) = (await self._asker.ask_any(CreateAclsRequest(creations=(ACL,)))).results
        for step in ("created", "deleted"):
            found = await self._asker.ask_any(DescribeAclsRequest(**of_its_principal()))
            principals = [acl.principal for resource in found.resources for acl in resource.acls]
            known = [acl.principal for _, acl in self._truth.image.acls.items()]
            right = [ACL.principal] if has_authorizer and step == "created" else []
            if (found.error_code, principals, known) != (code, right, right):
                wrong.append(f"{step}: {found.error_code.name}, ACLs of {principals}, in the metadata of {known}")
            if step == "created":
                deletion = DeleteAclsRequest(filters=(DeleteAclsFilter(**of_its_principal()),))
                (deleted,) = (await self._asker.ask_any(deletion)).filter_results
                codes = (created.error_code, deleted.error_code, len(deleted.matching_acls))
                if codes != (code, code, len(right)):
                    wrong.append(f"creation, deletion and how many were deleted: {codes}")
        return wrong
