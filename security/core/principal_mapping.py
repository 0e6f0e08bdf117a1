"""The principal of a client certificate: its distinguished name, mapped by `ssl.principal.mapping.rules` (KIP-371).

A distinguished name is written as Java writes it (RFC 2253): the last attribute first, known keywords as Java knows
them, all others as an OID with the value in hex. Rules are tried in their order; the first that matches the whole name
decides:

    RULE:^CN=([^,]*),.*$/$1/L,DEFAULT

| rule | principal |
|---|---|
| `DEFAULT` | the distinguished name as it is |
| `RULE:pattern/replacement/[LU]` | the replacement with `$1` to `$9`; `L` and `U` change the letter case |

Without a rule that matches, the connection is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ...errors import OperatorError
from ...light_dataclass import dataclass

KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<value>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*"
)
_SPECIAL: Final = frozenset(',+"\\<>;=')


class MappingRuleError(OperatorError, ValueError):
    """The text of `ssl.principal.mapping.rules` is wrong."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a distinguished name. `der` is the value as it is encoded, for an OID without a keyword."""

    oid: str
    value: str
    der: bytes = b""


@dataclass(frozen=True, slots=True)
class MappingRule:
    """A pattern for the whole name, None for DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    letter_case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the principal's name, or None if the rule does not match."""
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        mapped = re.sub(r"\$(\d)", lambda group: match[int(group[1])] or "", self.replacement)
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.letter_case, mapped)


DEFAULT_RULES: Final = (MappingRule(None),)


def parse_rules(text: str) -> tuple[MappingRule, ...]:
    """Return the rules of `ssl.principal.mapping.rules`. MappingRuleError names the rule that is wrong."""
    if not text.strip() or text.strip() == "DEFAULT":
        return DEFAULT_RULES
    rules: list[MappingRule] = []
    position = 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None or (match.end() < len(text) and text[match.end()] != ","):
            raise MappingRuleError(
                f"rule {len(rules) + 1}: expected DEFAULT or RULE:pattern/replacement/, then L, U or nothing"
            )
        rules.append(_rule(match, len(rules) + 1))
        position = match.end() + 1
    return tuple(rules)


def _rule(match: re.Match[str], number: int) -> MappingRule:
    if match["default"] is not None:
        return DEFAULT_RULES[0]
    try:
        pattern = re.compile(match["pattern"].replace("\\/", "/"))
    except re.error as error:
        raise MappingRuleError(f"rule {number}: the pattern is no regular expression: {error}") from None
    groups = [int(digit) for digit in re.findall(r"\$(\d)", match["value"])]
    if any(group > pattern.groups for group in groups):
        raise MappingRuleError(f"rule {number}: ${max(groups)} is used, but the pattern has {pattern.groups} groups")
    return MappingRule(pattern, match["value"].replace("\\/", "/"), match["case"])


def principal_name(distinguished_name: str, rules: Sequence[MappingRule]) -> str | None:
    """Return the name that the first matching rule gives, or None if none matches."""
    return next((name for rule in rules if (name := rule.apply(distinguished_name)) is not None), None)


def distinguished_name(names: Sequence[Sequence[Attribute]]) -> str:
    """Return the name of a certificate as Java's `X500Principal.getName()` does; `names` are in the certificate's
    order, each with the attributes of one relative name.
    """
    return ",".join("+".join(map(_attribute_text, attributes)) for attributes in reversed(names))


def _attribute_text(attribute: Attribute) -> str:
    keyword = KEYWORDS.get(attribute.oid)
    if keyword is None:
        return f"{attribute.oid}=#{attribute.der.hex()}"
    escaped = "".join(f"\\{character}" if character in _SPECIAL else character for character in attribute.value)
    if escaped.startswith((" ", "#")):
        escaped = f"\\{escaped}"
    if attribute.value.endswith(" ") and len(attribute.value) > 1:
        escaped = f"{escaped[:-1]}\\ "
    return f"{keyword}={escaped}"
