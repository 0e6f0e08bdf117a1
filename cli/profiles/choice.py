"""Which cluster a command means. Pure: files and the environment are read only when it comes to them.

| order | source | its connection |
|---|---|---|
| 1 | `--bootstrap` | `--command-config`, else what `TIERFETCH_COMMAND_CONFIG` names |
| 2 | `--profile` | the profile's if it has one, unless `--command-config` is given; else as 1 |
| 3 | `TIERFETCH_BOOTSTRAP` | as 1 |
| 4 | `TIERFETCH_PROFILE` | as 2 |
| 5 | the profile in use (`tierfetch profile use`) | as 2 |
| 6 | the one cluster that `tierfetch cluster up` runs | as 1 |
| 7 | 127.0.0.1:9092 | as 1 |

A profile's command config goes with its servers and nowhere else: credentials of one cluster are not shown to another.
With `--bootstrap` and `--profile` both, the servers are of the first and the connection is of the second.

A command that can do without a cluster (`spark audit`, `model calibrate`) asks one that is named for it: rows 1 to 4.
`quorum` asks controllers where no row up to 5 names brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ...light_dataclass import dataclass
from ...protocol import OperatorError
from .local_clusters import LocalClusterNote
from .store import Profile, Profiles

DEFAULT: Final = "127.0.0.1:9092"
DEFAULT_ORIGIN: Final = "the default"
ORDER: Final = ", ".join(
    (
        "--profile",
        "TIERFETCH_BOOTSTRAP",
        "TIERFETCH_PROFILE",
        "the profile in use",
        "the only local cluster that runs",
        DEFAULT,
    )
)
"""What stands in for `--bootstrap`, the first one that there is; for help texts."""


class NoClusterError(OperatorError):
    """Nothing says which cluster is meant, or what says it is wrong."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The servers to ask. `command_config` is that of the profile, None without; `origin` says what chose."""

    servers: tuple[str, ...]
    command_config: Path | None
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the command line and the environment say; empty and None for nothing."""

    bootstrap: Sequence[str] = ()
    profile: str | None = None
    environment_bootstrap: str | None = None
    environment_profile: str | None = None


def choose_cluster(
    given: Given, profiles: Callable[[], Profiles], running: Callable[[], Sequence[LocalClusterNote]]
) -> Chosen:
    """Return the cluster that a command means. NoClusterError, and what `profiles` raises."""
    return named_cluster(given, profiles) or _local(running())


def named_cluster(given: Given, profiles: Callable[[], Profiles]) -> Chosen | None:
    """Return the cluster of rows 1 to 5, None if none names one. NoClusterError, and what `profiles` raises."""
    if (named := explicit_cluster(given, profiles)) is not None:
        return named
    known = profiles()
    if known.in_use is None:
        return None
    profile = _named(known, known.in_use, "the profile in use")
    return Chosen(profile.bootstrap, profile.command_config, f"profile {known.in_use}")


def explicit_cluster(given: Given, profiles: Callable[[], Profiles]) -> Chosen | None:
    """Return the cluster of rows 1 to 4, None if none names one. NoClusterError, and what `profiles` raises."""
    if given.profile is not None:
        profile = _named(profiles(), given.profile, "--profile")
        servers = tuple(given.bootstrap) or profile.bootstrap
        return Chosen(servers, profile.command_config, f"profile {given.profile}")
    if given.bootstrap:
        return Chosen(tuple(given.bootstrap), None, "--bootstrap")
    if given.environment_bootstrap:
        return Chosen((given.environment_bootstrap,), None, "TIERFETCH_BOOTSTRAP")
    if given.environment_profile:
        profile = _named(profiles(), given.environment_profile, "TIERFETCH_PROFILE")
        return Chosen(profile.bootstrap, profile.command_config, f"profile {given.environment_profile}")
    return None


def _local(clusters: Sequence[LocalClusterNote]) -> Chosen:
    if not clusters:
        return Chosen((DEFAULT,), None, DEFAULT_ORIGIN)
    if len(clusters) > 1:
        addresses = " and ".join(cluster.bootstrap[0] for cluster in clusters)
        raise NoClusterError(f"{len(clusters)} local clusters run, at {addresses}: choose one with --bootstrap")
    return Chosen(clusters[0].bootstrap, None, "the local cluster")


def _named(profiles: Profiles, name: str, source: str) -> Profile:
    if name not in profiles.profiles:
        known = ", ".join(sorted(profiles.profiles)) or "none"
        raise NoClusterError(
            f"{source}: there is no profile {name!r}; there are: {known}. Make one with"
            f" tierfetch profile add {name} --bootstrap HOST:PORT"
        )
    return profiles.profiles[name]
