"""Plugins by entry point: one mechanism for every kind.

A plugin is a class with a class attribute `Config`, a pydantic model, and is built as `Plugin(config)`, or as
`Plugin(config, context)` where its kind has a context. A package offers one in an entry-point group, and an operator
names it in a key of the configuration; what begins with the kind's prefix are the plugin's options.

`KINDS` has all kinds, with the plugins that tierfetch itself brings. These are found also where the metadata of the
installation is older than the code, as in a checkout. A name that two packages provide is refused, not chosen.

Loading a plugin runs the code of its package: only the one that is named is loaded; a listing loads each, and reports
what each raises.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import lru_cache
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import ClassVar, Final, Protocol, cast

from pydantic import BaseModel

from .light_dataclass import dataclass
from .plugin_options import Option, PluginError, options_of

OURS: Final = "tierfetch"


class Plugin(Protocol):
    """The class that an entry point names, as far as it is the same for every kind."""

    Config: ClassVar[type[BaseModel]]


@dataclass(frozen=True, slots=True, eq=False)
class PluginKind:
    """One kind of plugin. `prefix` is what its options begin with; `<name>` stands for the plugin's name, with dots for
    hyphens. `built_in` has our own: the entry point's value by its name.
    """

    name: str
    group: str
    key: str
    prefix: str
    port: str
    nodes: str
    built_in: Mapping[str, str] = field(default_factory=dict)

    def prefix_of(self, name: str) -> str:
        """Return what the options of one plugin begin with in a configuration."""
        return self.prefix.replace("<name>", name.replace("-", "."))


BOOTSTRAP_POLICY: Final = PluginKind(
    "bootstrap-policy",
    "tierfetch.bootstrap_policy",
    key="bootstrap.policy",
    prefix="bootstrap.<name>.",
    port="tierfetch.fetcher.core.BootstrapPolicy",
    nodes="brokers and controllers",
    built_in={
        "bounded-local": "tierfetch.fetcher.core.policies:BoundedLocal",
        "earliest-pending-upload": "tierfetch.fetcher.core.policies:EarliestPendingUpload",
        "local-log-start": "tierfetch.fetcher.core.policies:LocalLogStart",
        "log-start": "tierfetch.fetcher.core.policies:LogStart",
        "tier-first": "tierfetch.fetcher.core.policies:TierFirst",
    },
)
REMOTE_STORAGE: Final = PluginKind(
    "storage",
    "tierfetch.remote_storage",
    key="remote.log.storage.manager.plugin",
    prefix="rsm.config.",
    port="tierfetch.remote.storage.RemoteStorageManager",
    nodes="brokers",
    built_in={
        "fsspec": "tierfetch.plugins.fsspec:FsspecRemoteStorage",
        "local": "tierfetch.plugins.local:LocalTieredStorage",
        "s3": "tierfetch.plugins.s3:S3RemoteStorage",
    },
)
REMOTE_LOG_METADATA: Final = PluginKind(
    "metadata",
    "tierfetch.remote_log_metadata",
    key="remote.log.metadata.manager.class.name",
    prefix="rlmm.config.",
    port="tierfetch.remote.metadata.RemoteLogMetadataManager",
    nodes="brokers",
    built_in={
        "file": "tierfetch.remote.file_manager:FileRemoteLogMetadataManager",
        "topic": "tierfetch.remote.topic_manager:TopicBasedRemoteLogMetadataManager",
    },
)
REPLICA_PLACEMENT: Final = PluginKind(
    "replica-placement",
    "tierfetch.replica_placement",
    key="replica.placement.plugin",
    prefix="replica.placement.config.",
    port="tierfetch.controller.ReplicaPlacement",
    nodes="controllers",
    built_in={"striped": "tierfetch.controller.core.placement:StripedPlacement"},
)
REPLICA_SELECTOR: Final = PluginKind(
    "replica-selector",
    "tierfetch.replica_selector",
    key="replica.selector.class",
    prefix="replica.selector.config.",
    port="tierfetch.broker.core.ReplicaSelector",
    nodes="brokers",
    built_in={
        "leader": "tierfetch.broker.core.read_replicas:LeaderSelector",
        "rack-aware": "tierfetch.broker.core.read_replicas:RackAwareSelector",
    },
)
KINDS: Final = (BOOTSTRAP_POLICY, REMOTE_STORAGE, REMOTE_LOG_METADATA, REPLICA_PLACEMENT, REPLICA_SELECTOR)


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """A plugin as a listing shows it. `error` says in one line why it cannot be loaded; None if it can."""

    kind: PluginKind
    name: str
    distribution: str
    version: str
    summary: str = ""
    options: tuple[Option, ...] = ()
    error: str | None = None


def installed_plugins(kind: PluginKind) -> list[str]:
    """Return the names, sorted."""
    return sorted({entry.name for entry in _entries(kind)})


def is_installed(kind: PluginKind, name: str) -> bool:
    """Return whether some package provides the name; whether it can be loaded is not tried."""
    return any(entry.name == name for entry in _entries(kind))


def is_built_in(kind: PluginKind, name: str) -> bool:
    """Return whether the plugin is tierfetch's own."""
    return {entry.value for entry in _entries(kind) if entry.name == name} == {kind.built_in.get(name)}


def load_plugin(kind: PluginKind, name: str) -> type[Plugin]:
    """Return the plugin's class. Raise PluginError if no package, or more than one, provides it, or it is no plugin."""
    found = {entry.value: entry for entry in _entries(kind) if entry.name == name}
    if not found:
        known = ", ".join(installed_plugins(kind)) or "none"
        raise PluginError(
            f"no plugin {name!r} is installed in the group {kind.group!r}; installed: {known}. Install the package "
            "that provides it into this environment, or name one of these"
        )
    if len(found) > 1:
        raise PluginError(
            f"plugin {name!r} is provided more than once in the group {kind.group!r}: {', '.join(sorted(found))}; "
            "uninstall all but one of their packages"
        )
    (entry,) = found.values()
    return _class_of(entry)


def list_plugins() -> list[InstalledPlugin]:
    """Return every plugin of every kind. Raise nothing: what a package raises is its plugin's error."""
    return [_described(kind, entry) for kind in KINDS for entry in sorted(_entries(kind), key=lambda each: each.name)]


def _class_of(entry: EntryPoint) -> type[Plugin]:
    try:
        plugin = entry.load()
    except ImportError as error:
        missing = f"; install it: pip install {error.name}" if isinstance(error, ModuleNotFoundError) else ""
        raise PluginError(f"plugin {entry.name!r} ({entry.value}) cannot be imported: {error}{missing}") from error
    except AttributeError as error:
        raise PluginError(
            f"plugin {entry.name!r} ({entry.value}) does not exist: {error}; reinstall its package"
        ) from error
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"plugin {entry.name!r} ({entry.value}) cannot be imported: {type(error).__name__}: {_line(error)}"
        ) from error
    if not (isinstance(plugin, type) and issubclass(getattr(plugin, "Config", type(None)), BaseModel)):
        raise PluginError(
            f"plugin {entry.name!r} ({entry.value}) has no class attribute Config that is a pydantic model"
        )
    return cast(type[Plugin], plugin)


def _described(kind: PluginKind, entry: EntryPoint) -> InstalledPlugin:
    distribution, release = _origin(entry)
    try:
        plugin = load_plugin(kind, entry.name)
    except PluginError as error:
        return InstalledPlugin(kind, entry.name, distribution, release, error=_line(error))
    try:
        options = tuple(options_of(plugin.Config))
    except Exception as error:  # noqa: BLE001 - a model of another package may raise anything
        text = f"its options cannot be shown: {type(error).__name__}: {_line(error)}"
        return InstalledPlugin(kind, entry.name, distribution, release, error=text)
    paragraph = _one_line(str(plugin.__doc__ or "").strip().partition("\n\n")[0])
    return InstalledPlugin(kind, entry.name, distribution, release, paragraph.partition(". ")[0], options)


def _origin(entry: EntryPoint) -> tuple[str, str]:
    if entry.dist is not None:
        return entry.dist.name, entry.dist.version
    try:
        return OURS, version(OURS)
    except PackageNotFoundError:
        return OURS, ""


def _line(error: BaseException) -> str:
    return _one_line(str(error))


def _one_line(text: str) -> str:
    """Return the text in one line, without what a terminal would obey."""
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())


def _entries(kind: PluginKind) -> Iterator[EntryPoint]:
    """Return the entry points of a kind, each value of a name once."""
    found = {(entry.name, entry.value): entry for entry in _scanned(tuple(sys.path))[kind.group]}
    for name, value in kind.built_in.items():
        found.setdefault((name, value), EntryPoint(name, value, kind.group))
    yield from found.values()


@lru_cache(maxsize=8)
def _scanned(_: tuple[str, ...]) -> dict[str, tuple[EntryPoint, ...]]:
    """Return the entry points of each kind in the packages on a path. The scan reads two files of each package, 15 ms
    in an environment of 190: it is made once for all kinds.
    """
    found = entry_points()
    return {kind.group: tuple(found.select(group=kind.group)) for kind in KINDS}
