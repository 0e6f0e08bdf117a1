"""Quantities as people write them: "2 TiB", "10 Gbit/s", "200 MB/s", or a plain number of bytes (for each second)."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

_FACTORS: Final = {
    "": 1,
    **{prefix: 1000**power for power, prefix in enumerate("kmgtp", 1)},
    **{f"{prefix}i": 1024**power for power, prefix in enumerate("kmgtp", 1)},
}
_QUANTITY: Final = re.compile(
    r"([0-9][0-9_,]*(?:\.[0-9]+)?(?:e\+?[0-9]{1,2})?)\s*((?:[kmgtp]i?)?)(b|bytes?|bits?)?(/s|ps)?", re.IGNORECASE
)

FILL_IN: Final = "FILL-IN"
"""Stands where a capture could not find a quantity."""


def parse_bytes(value: object) -> object:
    """Bytes of a text such as "1.5 GB", "64MiB" or "10 Gbit/s"; anything that is no text is left to pydantic.

    ValueError shows examples.
    """
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a quantity")
    if not isinstance(value, str):
        return value
    if value.strip().upper() == FILL_IN:
        raise ValueError(f'is not filled in: replace {FILL_IN} by a value such as "10 Gbit/s" or "2 TiB"')
    found = _QUANTITY.fullmatch(value.strip())
    if found is None:
        raise ValueError(f'{value!r} is not a quantity: give bytes, or such as "1.5 GB", "64 MiB", "10 Gbit/s"')
    number, prefix, unit, per_s = found.groups()
    if unit == "b" and per_s:
        raise ValueError(f'{value!r} may be bits or bytes: say "Gbit/s" or "GB/s", "Mbit/s" or "MB/s"')
    factor = _FACTORS[prefix.lower()]
    bits = unit is not None and unit.lower().startswith("bit")
    return float(number.replace("_", "").replace(",", "")) * factor / (8 if bits else 1)


Bytes = Annotated[float, BeforeValidator(parse_bytes), Field(ge=0, le=1e18, allow_inf_nan=False)]
"""A number of bytes, zero or more; a thousand PB at most."""

Rate = Annotated[float, BeforeValidator(parse_bytes), Field(ge=0, allow_inf_nan=False)]
"""Bytes for each second, zero or more."""

Capacity = Annotated[float, BeforeValidator(parse_bytes), Field(gt=0, allow_inf_nan=False)]
"""Bytes (for each second) that something can do at most: above zero."""
