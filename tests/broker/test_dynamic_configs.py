"""What a controller lets into the cluster's broker configs."""

from __future__ import annotations

import pytest

from tierfetch.broker.config.dynamic_configs import check_dynamic_configs
from tierfetch.protocol.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"follower.fetch.last.tiered.offset.enable": "true"},
        {"listener.name.external.ssl.keystore.location": "new.pem"},
        {"log.retention.ms": "1000", "unclean.leader.election.enable": "true"},
    ],
)
def test_F1_dynamic_keys_are_let_in(configs):
    check_dynamic_configs(configs)


@pytest.mark.parametrize(
    "configs",
    [
        {"log.dirs": "x"},
        {"ssl.keystore.location": "x"},
        {"listener.name.external.ssl.client.auth": "none"},
        {"listener.name.external.ssl.keystore.password": "hunter2"},
        {"listener.name.external.plain.sasl.jaas.config": "hunter2"},
        {"no.such.key": "1"},
        {"follower.fetch.last.tiered.offset.enable": "perhaps"},
    ],
)
def test_F1_others_are_refused_with_their_name(configs):
    with pytest.raises(KafkaError, match=next(iter(configs))) as refused:
        check_dynamic_configs(configs)
    assert refused.value.code is ErrorCode.invalid_config
    assert "hunter2" not in str(refused.value)
