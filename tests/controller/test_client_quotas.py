"""Quotas of clients at the controller: AlterClientQuotas, DescribeClientQuotas, which quota holds for whom, and the
controller mutation quota (KIP-546, KIP-55, KIP-599, KIP-612).
"""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.controller.core.config import ControllerConfig
from tierfetch.controller.core.machine import ControllerCore
from tierfetch.controller.core.quotas import mutations
from tierfetch.controller.core.quotas.alter import alter_client_quotas
from tierfetch.controller.core.quotas.describe import describe_client_quotas
from tierfetch.controller.core.quotas.mutations import MutationClient, MutationQuota, MutationQuotas
from tierfetch.controller.core.state import ControllerState
from tierfetch.controller.image.client_quotas import (
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    ClientQuotas,
    QuotaLimit,
    entity_of,
)
from tierfetch.controller.image.image import MetadataImage
from tierfetch.controller.image.snapshot import snapshot_records
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    OpData,
)
from tierfetch.tests.controller.harness import CONFIG, Harness
from tierfetch.tests.messages import plain, request_of

Parts = dict[str, str | None]
ALICE: Parts = {"user": "alice"}
INVALID = ErrorCode.invalid_request


@pytest.fixture
def state() -> ControllerState:
    return ControllerState(ControllerConfig(cluster_id="c", node_id=1), Random(1))


def entry(parts: Parts, **values: float | None) -> AlterClientQuotasRequestEntryData:
    return AlterClientQuotasRequestEntryData(
        entity=tuple(
            AlterClientQuotasRequestEntityData(entity_type=kind.replace("_", "-"), entity_name=name)
            for kind, name in parts.items()
        ),
        ops=tuple(OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()),
    )


def alter(
    state: ControllerState, *entries: AlterClientQuotasRequestEntryData, validate_only: bool = False
) -> list[tuple[ErrorCode, str | None]]:
    """Decide, replay, and return what each entity is answered."""
    request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    result = alter_client_quotas(state, request)
    state.image.replay_all(result.records)
    return [(answer.error_code, answer.error_message) for answer in result.response.entries]


def described(quotas: ClientQuotas, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    response = describe_client_quotas(
        quotas,
        DescribeClientQuotasRequest(
            components=tuple(
                ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components
            ),
            strict=strict,
        ),
    )
    if response.entries is None:
        return response.error_code, response.error_message
    return [
        ({part.entity_type: part.entity_name for part in item.entity}, {each.key: each.value for each in item.values})
        for item in response.entries
    ]


def test_quotas_come_change_and_go(state: ControllerState) -> None:
    assert alter(state, entry(ALICE, producer_byte_rate=1024, request_percentage=12.5)) == [(ErrorCode.none, None)]
    assert described(state.image.quotas) == [(ALICE, {"producer_byte_rate": 1024.0, "request_percentage": 12.5})]
    assert alter(state, entry(ALICE, producer_byte_rate=2048, request_percentage=None)) == [(ErrorCode.none, None)]
    assert described(state.image.quotas) == [(ALICE, {"producer_byte_rate": 2048.0})]
    assert alter(state, entry(ALICE, producer_byte_rate=None, consumer_byte_rate=None)) == [(ErrorCode.none, None)]
    assert described(state.image.quotas) == []
    assert list(snapshot_records(state.image)) == []


def test_quotas_are_in_the_snapshot(state: ControllerState) -> None:
    alter(
        state,
        entry({"user": "alice", "client_id": None}, consumer_byte_rate=7),
        entry({"ip": None}, connection_creation_rate=3),
    )
    again = MetadataImage()
    again.replay_all(snapshot_records(state.image))
    assert described(again.quotas) == described(state.image.quotas)
    assert again.quotas.client_limit("consumer_byte_rate", "alice", "x") == QuotaLimit(7.0, "alice", "x")
    assert again.quotas.address_limit("10.0.0.1") == 3.0


def test_what_is_set_already_is_no_record(state: ControllerState) -> None:
    alter(state, entry(ALICE, producer_byte_rate=1))
    request = AlterClientQuotasRequest(entries=(entry(ALICE, producer_byte_rate=1),), validate_only=False)
    assert alter_client_quotas(state, request).records == []


def test_validate_only_changes_nothing(state: ControllerState) -> None:
    assert alter(state, entry(ALICE, producer_byte_rate=1), validate_only=True) == [(ErrorCode.none, None)]
    assert described(state.image.quotas) == []


@pytest.mark.parametrize(
    ("parts", "values", "message"),
    [
        ({}, {"producer_byte_rate": 1}, "Invalid empty client quota entity"),
        ({"group": "g"}, {"producer_byte_rate": 1}, "Unhandled client quota entity type: group"),
        ({"user": ""}, {"producer_byte_rate": 1}, "Empty user not supported"),
        ({"user": "a", "ip": "10.0.0.1"}, {"producer_byte_rate": 1}, "combination"),
        ({"ip": "no.such.host."}, {"connection_creation_rate": 1}, "is not a valid IP"),
        ({"ip": "10.0.0.1"}, {"producer_byte_rate": 1}, "Invalid configuration key producer_byte_rate"),
        (ALICE, {"connection_creation_rate": 1}, "Invalid configuration key connection_creation_rate"),
        (ALICE, {"SCRAM-SHA-256": 1}, "Invalid configuration key SCRAM-SHA-256"),
        (ALICE, {"producer_byte_rate": 1.5}, "producer_byte_rate cannot be a fractional value."),
        (ALICE, {"producer_byte_rate": 1e19}, "too large for a LONG"),
        ({"ip": "10.0.0.1"}, {"connection_creation_rate": 3e9}, "too large for an INT"),
        (ALICE, {"request_percentage": -1}, "Quota request_percentage must be greater than 0"),
        (ALICE, {"request_percentage": float("nan")}, "must be greater than 0"),
    ],
)
def test_what_is_no_quota_is_refused(
    state: ControllerState, parts: Parts, values: dict[str, float], message: str
) -> None:
    good = entry({"user": "bob"}, producer_byte_rate=1)
    answers = alter(state, entry(parts, **values), good)
    assert answers[0][0] is INVALID
    assert message in (answers[0][1] or "")
    assert answers[1] == (ErrorCode.none, None)
    assert described(state.image.quotas) == [({"user": "bob"}, {"producer_byte_rate": 1.0})]


def test_one_wrong_key_leaves_the_whole_entity_as_it_was(state: ControllerState) -> None:
    assert alter(state, entry(ALICE, producer_byte_rate=1, nonsense=1))[0][0] is INVALID
    assert described(state.image.quotas) == []


def test_an_entity_and_a_key_may_be_named_once(state: ControllerState) -> None:
    twice = alter(state, entry(ALICE, producer_byte_rate=1), entry(ALICE, producer_byte_rate=2))
    assert [code for code, _ in twice] == [INVALID]
    op = OpData(key="producer_byte_rate", value=1.0, remove=False)
    same_key = AlterClientQuotasRequestEntryData(entity=entry({"user": "bob"}).entity, ops=(op, op))
    assert alter(state, same_key)[0][0] is INVALID


# Describing.


@pytest.fixture
def many(state: ControllerState) -> ClientQuotas:
    for parts in ({"user": "a"}, {"user": None}, {"client_id": "c"}, {"user": "a", "client_id": "c"}):
        alter(state, entry(parts, producer_byte_rate=1))
    alter(state, entry({"ip": "10.0.0.1"}, connection_creation_rate=1))
    return state.image.quotas


def names(found: Any) -> list[Parts]:
    return [parts for parts, _ in found]


def test_a_filter_matches_exactly_by_default_or_by_type(many: ClientQuotas) -> None:
    assert names(described(many, ("user", 0, "a"))) == [{"user": "a"}, {"user": "a", "client-id": "c"}]
    assert names(described(many, ("user", 0, "a"), strict=True)) == [{"user": "a"}]
    assert names(described(many, ("user", 1, None))) == [{"user": None}]
    assert names(described(many, ("user", 2, None), strict=True)) == [{"user": "a"}, {"user": None}]
    assert names(described(many, ("user", 2, None), ("client-id", 0, "c"))) == [{"user": "a", "client-id": "c"}]
    assert names(described(many, ("ip", 0, "10.0.0.1"))) == [{"ip": "10.0.0.1"}]
    assert len(described(many)) == 5
    assert described(many, strict=True) == []


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", 0, "a")], INVALID),
        ([("user", 0, "a"), ("user", 2, None)], INVALID),
        ([("group", 0, "a")], ErrorCode.unsupported_version),
        ([("user", 0, None)], INVALID),
        ([("user", 1, "a")], INVALID),
        ([("user", 2, "a")], INVALID),
        ([("user", 3, None)], INVALID),
        ([("user", 0, "a"), ("ip", 2, None)], INVALID),
    ],
)
def test_what_is_no_filter_is_refused(many: ClientQuotas, components: Any, code: ErrorCode) -> None:
    found, message = described(many, *components)
    assert found is code
    assert message


# Which one holds.

LEVELS: list[tuple[Parts, tuple[str, str]]] = [
    ({"user": "u", "client-id": "c"}, ("u", "c")),
    ({"user": "u", "client-id": None}, ("u", "c")),
    ({"user": "u"}, ("u", "")),
    ({"user": None, "client-id": "c"}, ("u", "c")),
    ({"user": None, "client-id": None}, ("u", "c")),
    ({"user": None}, ("u", "")),
    ({"client-id": "c"}, ("", "c")),
    ({"client-id": None}, ("", "c")),
]


@pytest.mark.parametrize("chosen", [each for n in range(9) for each in combinations(range(8), n)])
def test_the_most_specific_of_eight_levels_holds(chosen: tuple[int, ...]) -> None:
    quotas = ClientQuotas()
    for level in chosen:
        quotas.put(entity_of(LEVELS[level][0].items()), PRODUCER_BYTE_RATE, float(level + 1))
    quotas.put(entity_of({"user": "v", "client-id": "c"}.items()), PRODUCER_BYTE_RATE, 99.0)
    quotas.put(entity_of({"user": "u"}.items()), "another_key", 98.0)
    expected = None if not chosen else QuotaLimit(float(chosen[0] + 1), *LEVELS[chosen[0]][1])
    assert quotas.client_limit(PRODUCER_BYTE_RATE, "u", "c") == expected


def test_an_address_has_its_own_quota_or_the_default() -> None:
    quotas = ClientQuotas()
    assert quotas.address_limit("::1") is None
    quotas.put(entity_of({IP: "0:0::1"}.items()), "connection_creation_rate", 5.0)
    assert quotas.address_limit("::1") == 5.0
    assert quotas.address_limit("10.0.0.1") is None
    quotas.put(entity_of({IP: None}.items()), "connection_creation_rate", 2.0)
    assert (quotas.address_limit("::1"), quotas.address_limit("10.0.0.1")) == (5.0, 2.0)


# The controller mutation quota.


def limited(rate: float) -> ClientQuotas:
    quotas = ClientQuotas()
    quotas.put(entity_of({"user": "u"}.items()), CONTROLLER_MUTATION_RATE, rate)
    return quotas


def quota(buckets: MutationQuotas, quotas: ClientQuotas, now_ms: int, *, is_strict: bool = True) -> MutationQuota:
    return buckets.of(quotas, MutationClient("u", "c", is_strict), now_ms)


def test_a_burst_passes_and_its_debt_is_waited_for() -> None:
    """The example of KIP-599: rate 5, 100 s saved up; 560 leave a debt of 60, which takes 12 s."""
    buckets, quotas = MutationQuotas(100.0), limited(5.0)
    first = quota(buckets, quotas, 1_000)
    first.charge(560)
    assert first.throttle_ms == 0
    second = quota(buckets, quotas, 1_000)
    with pytest.raises(KafkaError, match="throttling quota") as caught:
        second.charge(1)
    assert caught.value.code is ErrorCode.throttling_quota_exceeded
    assert second.throttle_ms == 12_000
    with pytest.raises(KafkaError):
        quota(buckets, quotas, 12_999).charge(1)
    quota(buckets, quotas, 13_001).charge(1)


def test_an_older_version_is_let_through_and_told_to_wait() -> None:
    buckets, quotas = MutationQuotas(10.0), limited(1.0)
    old = quota(buckets, quotas, 0, is_strict=False)
    old.charge(12)
    assert old.throttle_ms == 2_000
    old.charge(3)
    assert old.throttle_ms == 5_000


@pytest.mark.parametrize("rate", [0.001, 5e-324])
@pytest.mark.parametrize("is_strict", [False, True])
def test_a_wait_is_never_longer_than_a_response_can_say(rate: float, is_strict: bool) -> None:
    buckets, quotas = MutationQuotas(10.0), limited(rate)
    owing = quota(buckets, quotas, 0, is_strict=is_strict)
    owing.charge(3_000)
    if is_strict:
        owing = quota(buckets, quotas, 0)
        with pytest.raises(KafkaError, match="throttling quota"):
            owing.charge(1)
    assert owing.throttle_ms == 2**31 - 1


def test_nobody_is_limited_without_a_quota() -> None:
    free = quota(MutationQuotas(1.0), ClientQuotas(), 0)
    free.charge(10**9)
    assert free.throttle_ms == 0


@given(
    st.floats(0.1, 1000),
    st.floats(1, 60),
    st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 500)), min_size=1, max_size=30),
)
def test_what_passes_stays_within_rate_and_burst(rate: float, burst_s: float, asked: list[tuple[int, int]]) -> None:
    buckets, quotas, now_ms, passed = MutationQuotas(burst_s), limited(rate), 0, []
    for wait_ms, partitions in asked:
        now_ms += wait_ms
        try:
            quota(buckets, quotas, now_ms).charge(partitions)
        except KafkaError:
            continue
        passed.append(partitions)
    assert sum(passed[:-1]) <= rate * (burst_s + now_ms / 1000) * (1 + 1e-9) + max(passed[:-1], default=0)


def test_buckets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutations, "BUCKETS_MAX", 10)
    quotas = ClientQuotas()
    quotas.put(entity_of({"user": None}.items()), CONTROLLER_MUTATION_RATE, 1.0)
    buckets = MutationQuotas(1.0)
    for number in range(100):
        buckets.of(quotas, MutationClient(f"user-{number}", "c", is_strict=True), 0).charge(1)
        assert len(buckets) <= 10


def topic(name: str, partitions: int) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}


def asked_as(core: ControllerCore, harness: Harness, api: ApiKey, values: dict[str, Any], version: int) -> Any:
    client = MutationClient("u", "c", is_strict=version >= mutations.STRICT_SINCE[api])
    result = core.handle_of(request_of(api, values, version), harness.moment, client)
    harness.take(result)
    return plain(result.response)


def test_topics_are_created_grown_and_deleted_within_the_quota() -> None:
    harness = Harness(CONFIG)
    harness.register(1)
    harness.heartbeat(1)
    harness.ask(
        ApiKey.ALTER_CLIENT_QUOTAS,
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "u"}],
                    "ops": [{"key": CONTROLLER_MUTATION_RATE, "value": 1.0, "remove": False}],
                }
            ],
            "validate_only": False,
        },
    )
    created = asked_as(
        harness.core,
        harness,
        ApiKey.CREATE_TOPICS,
        {"topics": [topic("a", 10), topic("b", 5), topic("c", 1)], "timeout_ms": 1},
        7,
    )
    assert [item["error_code"].name for item in created["topics"]] == ["none", "none", "throttling_quota_exceeded"]
    assert created["throttle_time_ms"] == 4_000
    grow = {"topics": [{"name": "a", "count": 12, "assignments": None}], "timeout_ms": 1, "validate_only": False}
    grown = asked_as(harness.core, harness, ApiKey.CREATE_PARTITIONS, grow, 3)
    assert [item["error_code"].name for item in grown["results"]] == ["throttling_quota_exceeded"]
    old = asked_as(harness.core, harness, ApiKey.CREATE_PARTITIONS, grow, 2)
    assert [item["error_code"].name for item in old["results"]] == ["none"]
    assert old["throttle_time_ms"] == 6_000
    gone = {"topic_names": ["b"], "topics": [{"name": "b", "topic_id": None}], "timeout_ms": 1}
    assert asked_as(harness.core, harness, ApiKey.DELETE_TOPICS, gone, 6)["responses"][0]["error_code"].name == (
        "throttling_quota_exceeded"
    )
    harness.now_ms += 6_000
    deleted = asked_as(harness.core, harness, ApiKey.DELETE_TOPICS, gone, 6)
    assert (deleted["responses"][0]["error_code"].name, deleted["throttle_time_ms"]) == ("none", 0)
    assert harness.core.state.charge is mutations.free_of_charge
