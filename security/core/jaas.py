"""The value of `sasl.jaas.config`, in Java's own syntax: one login module and its options.

    org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="s \\"x\\"";

| part | rule |
|---|---|
| module | a class name; the short name decides, so that shaded copies work |
| control flag | `required`, `requisite`, `sufficient` or `optional`, in any letter case |
| options | `name=value`; a value is bare or in quotes, where a backslash escapes the next character |
| end | a semicolon, and nothing after it: Kafka takes one module |

A syntax error is a `JaasError` that says what was expected, and never repeats a value: it may be a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from ...errors import OperatorError
from ...light_dataclass import dataclass

_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_TOKEN = re.compile(r'\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<sign>[=;])|(?P<bare>[^\s=;"]+))', re.DOTALL)


class JaasError(OperatorError, ValueError):
    """The text is no JAAS configuration."""


@dataclass(frozen=True, slots=True)
class JaasConfig:
    """One login module. `options` hold passwords, which `repr` leaves out."""

    module: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def module_name(self) -> str:
        """The class's name without its package."""
        return self.module.rpartition(".")[2]

    def required(self, option: str) -> str:
        """Return an option's value. JaasError if it is missing or empty."""
        value = self.options.get(option, "")
        if not value:
            raise JaasError(f'{self.module_name} needs the option {option}, as in {option}="..."')
        return value


def parse_jaas(text: str) -> JaasConfig:
    """Return the login module of a `sasl.jaas.config`."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != ("sign", ";"):
        raise JaasError("expected 'MODULE required name=\"value\" ...;', ending with a semicolon")
    (kind, module), (flag_kind, flag), *rest = tokens[:-1]
    if kind != "text" or flag_kind != "text" or flag.lower() not in _FLAGS:
        raise JaasError("expected a login module's class name and then a control flag, such as required")
    options: dict[str, str] = {}
    if len(rest) % 3:
        raise JaasError('expected options as name="value" after the control flag, and one semicolon at the end')
    for at in range(0, len(rest), 3):
        (name_kind, name), sign, (value_kind, value) = rest[at : at + 3]
        if name_kind != "text" or sign != ("sign", "=") or value_kind != "text":
            raise JaasError('expected options as name="value" after the control flag, and one semicolon at the end')
        if name in options:
            raise JaasError(f"the option {name} is given twice")
        options[name] = value
    return JaasConfig(module, options)


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError("a quoted value does not end, or a quote is in the middle of a word")
        position = match.end()
        if match["sign"] is not None:
            tokens.append(("sign", match["sign"]))
        elif match["quoted"] is not None:
            tokens.append(("text", _unescaped(match["quoted"])))
        else:
            tokens.append(("text", match["bare"]))
    return tokens


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text, flags=re.DOTALL)
