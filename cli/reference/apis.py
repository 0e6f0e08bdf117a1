"""docs/apis.md: every API that a node may offer, with its versions."""

from __future__ import annotations

from ...protocol import ApiKey
from .tables import table

HEAD = """# APIs

Every API with the versions that tierfetch offers and asks for; ApiVersions says at run time what a listener offers.
Written by `python -m tierfetch.cli.reference` from the table of `protocol/api.py`. Flexible versions have tagged fields
(KIP-482). [Who may send what](security-apis.md) has the rights, [divergence](divergence.md) what we leave out.

"""


def apis_page() -> str:
    """Return the text of `docs/apis.md`."""
    rows = [(f"{api.value}", _name(api), _versions(api), _flexible(api)) for api in sorted(ApiKey)]
    return HEAD + table(("key", "API", "versions", "flexible"), rows)


def _name(api: ApiKey) -> str:
    return api.name.title().replace("_", "")


def _versions(api: ApiKey) -> str:
    return f"{api.min_version} to {api.max_version}" if api.min_version < api.max_version else f"{api.max_version}"


def _flexible(api: ApiKey) -> str:
    return f"from {api.flexible_version} on" if api.flexible_version <= api.max_version else "none"
