"""Principals of certificates (KIP-371)."""

from __future__ import annotations

import pytest

from tierfetch.security.core.principal_mapping import (
    Attribute,
    MappingRuleError,
    distinguished_name,
    parse_rules,
    principal_name,
)

DN = "CN=Kafka-Client,OU=ops,O=Example\\, Inc.,C=DE"


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        ("", DN, DN),
        ("DEFAULT", DN, DN),
        ("RULE:^CN=([^,]+),.*$/$1/", DN, "Kafka-Client"),
        ("RULE:^CN=([^,]+),.*$/$1/L", DN, "kafka-client"),
        ("RULE:^CN=([^,]+),OU=([^,]+),.*$/$1@$2/U,DEFAULT", DN, "KAFKA-CLIENT@OPS"),
        ("RULE:^UID=(.*)$/$1/,DEFAULT", DN, DN),
        ("RULE:^UID=(.*)$/$1/, RULE:CN=(.*?),.*/$1/", DN, "Kafka-Client"),
        ("RULE:^UID=(.*)$/$1/", DN, None),
        ("RULE:CN=Kafka/x/", DN, None),
        ("RULE:CN=(a\\/b)/$1\\/c/", "CN=a/b", "a/b/c"),
        ("RULE:(x)?CN=.*/[$1]/", "CN=a", "[]"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_decides(rules: str, name: str, expected: str | None) -> None:
    assert principal_name(name, parse_rules(rules)) == expected


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("default", "rule 1: expected DEFAULT or RULE"),
        ("RULE:^CN=(.*)$/$1", "rule 1: expected"),
        ("DEFAULT,RULE:^CN=(.*)$/$1/X", "rule 2: expected"),
        ("RULE:^CN=(.*$/$1/", "rule 1: the pattern is no regular expression"),
        ("RULE:^CN=(.*)$/$2/", r"rule 1: \$2 is used, but the pattern has 1 groups"),
        ("DEFAULT;DEFAULT", "rule 1: expected"),
    ],
)
def test_wrong_rules_are_named(rules: str, expected: str) -> None:
    with pytest.raises(MappingRuleError, match=expected):
        parse_rules(rules)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([[Attribute("2.5.4.6", "DE")], [Attribute("2.5.4.3", "a")]], "CN=a,C=DE"),
        ([[Attribute("2.5.4.3", 'a,b+c"\\<>;=')]], 'CN=a\\,b\\+c\\"\\\\\\<\\>\\;\\='),
        ([[Attribute("2.5.4.3", " a ")]], "CN=\\ a\\ "),
        ([[Attribute("2.5.4.3", "#a")]], "CN=\\#a"),
        ([[Attribute("2.5.4.3", "a"), Attribute("0.9.2342.19200300.100.1.1", "b")]], "CN=a+UID=b"),
        ([[Attribute("1.2.840.113549.1.9.1", "a@b", b"\x16\x03a@b")]], "1.2.840.113549.1.9.1=#1603614062"),
        ([], ""),
    ],
)
def test_names_are_written_as_java_does(names: list[list[Attribute]], expected: str) -> None:
    assert distinguished_name(names) == expected
