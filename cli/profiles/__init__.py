"""`tierfetch profile`, and how a command finds its cluster where it is not named.

choice          decides which cluster a command means; pure.
store           keeps the profiles in the user's configuration folder.
local_clusters  keeps a note of each `tierfetch cluster up` that runs.
command         is `tierfetch profile`.
"""

from __future__ import annotations

from .choice import (
    DEFAULT_ORIGIN,
    ORDER,
    Chosen,
    Given,
    NoClusterError,
    choose_cluster,
    explicit_cluster,
    named_cluster,
)
from .local_clusters import LocalClusterNote, announced, running_clusters
from .store import Profile, Profiles, config_folder, read_profiles, write_private

__all__ = [
    "DEFAULT_ORIGIN",
    "ORDER",
    "Chosen",
    "Given",
    "LocalClusterNote",
    "NoClusterError",
    "Profile",
    "Profiles",
    "announced",
    "choose_cluster",
    "config_folder",
    "explicit_cluster",
    "named_cluster",
    "read_profiles",
    "running_clusters",
    "write_private",
]
