"""ACL matching: Kafka's own cases, and a naive model over everything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.security.core.acl import (
    CLUSTER,
    AclBinding,
    AclFilter,
    AclIndex,
    AclOperation,
    AclPermissionType,
    AclRules,
    PatternType,
    Resource,
    ResourcePattern,
    ResourceType,
)

NO_RULES = AclRules()
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
Op = AclOperation
ALICE, BOB = ("User:alice", "10.0.0.1"), ("User:bob", "10.0.0.2")


def acl(
    name: str,
    operation: AclOperation,
    permission: AclPermissionType = ALLOW,
    *,
    principal: str = "User:alice",
    host: str = "*",
    pattern: PatternType = LITERAL,
    kind: ResourceType = TOPIC,
) -> AclBinding:
    return AclBinding(ResourcePattern(kind, name, pattern), principal, host, operation, permission)


def index_of(*acls: AclBinding) -> AclIndex:
    index = AclIndex()
    for each in acls:
        index.add(each)
    return index


def allows(
    acls: list[AclBinding], operation: AclOperation, name: str = "t", requester: tuple[str, str] = ALICE
) -> bool:
    return index_of(*acls).allows(NO_RULES, requester, operation, Resource(TOPIC, name))


@pytest.mark.parametrize(
    ("acls", "operation", "expected"),
    [
        ([], Op.READ, False),
        ([acl("t", Op.READ)], Op.READ, True),
        ([acl("t", Op.READ)], Op.WRITE, False),
        ([acl("t", Op.ALL)], Op.CREATE, True),
        ([acl("t", Op.ALL), acl("t", Op.READ, DENY)], Op.READ, False),
        ([acl("t", Op.ALL), acl("t", Op.READ, DENY)], Op.DESCRIBE, True),
        ([acl("t", Op.READ), acl("*", Op.ALL, DENY)], Op.READ, False),
        ([acl("t", Op.READ), acl("", Op.ALL, DENY, pattern=PREFIXED)], Op.READ, False),
        ([acl("*", Op.READ)], Op.READ, True),
        ([acl("*", Op.READ, pattern=PREFIXED)], Op.READ, False),
        ([acl("t", Op.READ, pattern=PREFIXED)], Op.READ, True),
        ([acl("tt", Op.READ, pattern=PREFIXED)], Op.READ, False),
        ([acl("T", Op.READ)], Op.READ, False),
        ([acl("t", Op.READ, principal="User:*")], Op.READ, True),
        ([acl("t", Op.READ, principal="User:Alice")], Op.READ, False),
        ([acl("t", Op.READ, principal="Group:alice")], Op.READ, False),
        ([acl("t", Op.READ, host="10.0.0.1")], Op.READ, True),
        ([acl("t", Op.READ, host="10.0.0.2")], Op.READ, False),
        ([acl("t", Op.READ, kind=GROUP)], Op.READ, False),
        ([acl("t", Op.READ), acl("t", Op.READ, DENY, principal="User:bob")], Op.READ, True),
        ([acl("t", Op.READ), acl("t", Op.READ, DENY, host="10.0.0.2")], Op.READ, True),
        ([acl("t", Op.READ), acl("t", Op.DESCRIBE, DENY)], Op.READ, True),
        ([acl("t", Op.READ), acl("t", Op.DESCRIBE, DENY)], Op.DESCRIBE, False),
    ],
)
def test_an_operation_is_decided_as_kafka_decides_it(
    acls: list[AclBinding], operation: AclOperation, expected: bool
) -> None:
    assert allows(acls, operation) is expected


@pytest.mark.parametrize("given_operation", list(Op)[3:])
@pytest.mark.parametrize("asked", list(Op)[3:])
def test_operations_that_are_implied(given_operation: AclOperation, asked: AclOperation) -> None:
    implied = {
        Op.DESCRIBE: {Op.READ, Op.WRITE, Op.DELETE, Op.ALTER},
        Op.DESCRIBE_CONFIGS: {Op.ALTER_CONFIGS},
    }
    expected = given_operation is asked or given_operation in implied.get(asked, ())
    assert allows([acl("t", given_operation)], asked) is expected
    denied = [acl("t", Op.ALL), acl("t", given_operation, DENY)]
    assert allows(denied, asked) is (given_operation is not asked)


def test_super_users_need_no_acl_and_no_denial_stops_them() -> None:
    rules = AclRules(super_users=frozenset({"User:alice"}))
    index = index_of(acl("*", Op.ALL, DENY, principal="User:*"))
    assert index.allows(rules, ALICE, Op.ALTER, Resource(TOPIC, "t"))
    assert not index.allows(rules, BOB, Op.ALTER, Resource(TOPIC, "t"))
    assert not index.allows(rules, BOB, Op.CLUSTER_ACTION, CLUSTER)


def test_everyone_is_allowed_only_where_no_acl_matches_the_resource() -> None:
    index = index_of(acl("t", Op.READ, principal="User:bob"))
    rules = AclRules(allow_if_no_acl=True)
    assert not index.allows(rules, ALICE, Op.READ, Resource(TOPIC, "t"))
    assert index.allows(rules, ALICE, Op.READ, Resource(TOPIC, "u"))
    assert index.allows(rules, ALICE, Op.READ, Resource(GROUP, "t"))


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl("t", Op.WRITE)], True),
        ([acl("t", Op.WRITE), acl("t", Op.WRITE, DENY)], False),
        ([acl("ta", Op.WRITE), acl("t", Op.WRITE, DENY, pattern=PREFIXED)], False),
        ([acl("t", Op.WRITE, pattern=PREFIXED), acl("ta", Op.WRITE, DENY, pattern=PREFIXED)], True),
        ([acl("*", Op.WRITE), acl("t", Op.WRITE, DENY, pattern=PREFIXED)], True),
        ([acl("t", Op.WRITE), acl("*", Op.ALL, DENY)], False),
        ([acl("t", Op.WRITE, host="10.0.0.9")], False),
        ([acl("t", Op.WRITE, kind=GROUP)], False),
    ],
)
def test_whether_any_topic_may_be_written(acls: list[AclBinding], expected: bool) -> None:
    assert index_of(*acls).allows_any(NO_RULES, ALICE, Op.WRITE, TOPIC) is expected


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (AclFilter(), ["*", "t", "t-1", "t"]),
        (AclFilter(name="t"), ["t", "t"]),
        (AclFilter(name="t", pattern_type=LITERAL), ["t"]),
        (AclFilter(name="t", pattern_type=PREFIXED), ["t"]),
        (AclFilter(name="t-1", pattern_type=PatternType.MATCH), ["*", "t-1", "t"]),
        (AclFilter(name="t-1", pattern_type=PatternType.ANY), ["t-1"]),
        (AclFilter(pattern_type=PREFIXED), ["t"]),
        (AclFilter(principal="User:bob"), ["t-1"]),
        (AclFilter(operation=Op.WRITE), ["t-1"]),
        (AclFilter(permission=DENY), []),
        (AclFilter(resource_type=GROUP), []),
        (AclFilter(host="*"), ["*", "t", "t-1", "t"]),
        (AclFilter(host="10.0.0.1"), []),
    ],
)
def test_filters(wanted: AclFilter, names: list[str]) -> None:
    acls = [
        acl("*", Op.READ),
        acl("t", Op.READ),
        acl("t-1", Op.WRITE, principal="User:bob"),
        acl("t", Op.READ, pattern=PREFIXED),
    ]
    assert [each.pattern.name for each in acls if wanted.accepts(each)] == names


NAMES = st.sampled_from(["", "*", "a", "ab", "abc", "b"])
ACLS = st.builds(
    AclBinding,
    st.builds(ResourcePattern, st.sampled_from([TOPIC, GROUP]), NAMES, st.sampled_from([LITERAL, PREFIXED])),
    st.sampled_from(["User:alice", "User:bob", "User:*"]),
    st.sampled_from(["10.0.0.1", "10.0.0.2", "*"]),
    st.sampled_from(list(Op)[2:]),
    st.sampled_from([ALLOW, DENY]),
)


def naive(
    acls: list[AclBinding], rules: AclRules, requester: tuple[str, str], operation: AclOperation, name: str
) -> bool:
    """Every ACL is looked at, in the words of the documentation."""
    principal, host = requester
    if principal in rules.super_users:
        return True
    matching = [
        one
        for one in acls
        if one.pattern.resource_type is TOPIC
        and (
            name.startswith(one.pattern.name)
            if one.pattern.pattern_type is PREFIXED
            else one.pattern.name in {name, "*"}
        )
    ]
    if not matching:
        return rules.allow_if_no_acl
    mine = [one for one in matching if one.principal in {principal, "User:*"} and one.host in {host, "*"}]
    if any(one.permission is DENY and one.operation in {operation, Op.ALL} for one in mine):
        return False
    enough = {operation, Op.ALL}
    if operation is Op.DESCRIBE:
        enough |= {Op.READ, Op.WRITE, Op.DELETE, Op.ALTER}
    if operation is Op.DESCRIBE_CONFIGS:
        enough |= {Op.ALTER_CONFIGS}
    return any(one.permission is ALLOW and one.operation in enough for one in mine)


@given(
    st.lists(ACLS, max_size=8),
    st.lists(ACLS, max_size=4),
    st.builds(AclRules, st.sampled_from([frozenset(), frozenset({"User:bob"})]), st.booleans()),
    st.sampled_from([ALICE, BOB, ("User:alice", "10.0.0.2")]),
    st.sampled_from(list(Op)[3:]),
    NAMES.filter(bool),
)
def test_the_index_decides_as_the_naive_model(
    acls: list[AclBinding],
    removed: list[AclBinding],
    rules: AclRules,
    requester: tuple[str, str],
    operation: AclOperation,
    name: str,
) -> None:
    index = index_of(*acls, *removed)
    for each in removed:
        index.remove(each)
    assert sorted(index, key=str) == sorted(set(acls), key=str)
    decided = index.allows(rules, requester, operation, Resource(TOPIC, name))
    assert decided is naive(acls, rules, requester, operation, name)
