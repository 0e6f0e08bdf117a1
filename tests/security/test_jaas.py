"""`sasl.jaas.config` in Java's syntax."""

from __future__ import annotations

import pytest

from tierfetch.security.core.jaas import JaasConfig, JaasError, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "module", "options"),
    [
        (f'{PLAIN} required username="alice" password="secret";', PLAIN, {"username": "alice", "password": "secret"}),
        (f"{PLAIN} required username=alice\n  password=secret ;", PLAIN, {"username": "alice", "password": "secret"}),
        (f'{PLAIN} REQUIRED user_a="x;y=z" user_b="";', PLAIN, {"user_a": "x;y=z", "user_b": ""}),
        (f'{PLAIN} optional password="a \\"b\\" \\\\";', PLAIN, {"password": 'a "b" \\'}),
        (f"{PLAIN} required;", PLAIN, {}),
        ('shaded.ScramLoginModule sufficient a="\\u";', "shaded.ScramLoginModule", {"a": "u"}),
    ],
)
def test_what_is_understood(text: str, module: str, options: dict[str, str]) -> None:
    assert parse_jaas(text) == JaasConfig(module, options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "ending with a semicolon"),
        (f"{PLAIN} required username=alice", "ending with a semicolon"),
        (f"{PLAIN};", "ending with a semicolon"),
        (f'{PLAIN} username="alice";', "control flag"),
        (f'{PLAIN} sometimes username="alice";', "control flag"),
        (f'{PLAIN} required username="alice;', "does not end"),
        (f'{PLAIN} required username:"alice";', 'name="value"'),
        (f'{PLAIN} required username= password="hunter2";', 'name="value"'),
        (f'{PLAIN} required username="a" username="b";', "given twice"),
        (f'{PLAIN} required a="b"; {PLAIN} required c="d";', 'name="value"'),
    ],
)
def test_what_is_refused(text: str, expected: str) -> None:
    with pytest.raises(JaasError, match=expected) as refused:
        parse_jaas(text)
    assert "hunter2" not in str(refused.value)


def test_a_missing_option_is_named() -> None:
    config = parse_jaas(f'{PLAIN} required username="alice" password="";')
    assert config.required("username") == "alice"
    with pytest.raises(JaasError, match="PlainLoginModule needs the option password"):
        config.required("password")


def test_passwords_are_not_printed() -> None:
    assert "hunter2" not in repr(parse_jaas(f'{PLAIN} required username="alice" password="hunter2";'))
