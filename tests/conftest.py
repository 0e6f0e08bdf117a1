"""Options of the whole test suite."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from tierfetch.cli.local import processes
from tierfetch.sim.machine.loop import make_loop
from tierfetch.tests.distribution import BySlowTest, FailuresAtOnce, in_order
from tierfetch.tests.fork_server import ForkServer
from tierfetch.tests.parsing import keep_collections_out

keep_collections_out()

# How long an example takes says nothing on a busy machine; pytest's timeout bounds each test.
settings.register_profile("tierfetch", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50)
settings.register_profile("deep", settings.get_profile("tierfetch"), max_examples=2_000)
settings.load_profile("tierfetch")


HERE: Final = Path(__file__).parent
MARKERS: Final = (
    "slow: above a second or two; `make test` runs it, `pytest -m 'not slow'` leaves it out",
    "process: starts real broker processes",
    "plaintext: needs listeners without security, or has security of its own; left out of `pytest --secure`",
    "secured: clusters with security of their own (make test-commands)",
    "packaging: builds, extras and examples in interpreters of their own (make check)",
    "commands: whole clusters started and operated by the command, and long stories of them (make test-commands)",
    "faults: brokers killed, frozen and starved while they serve (make test-faults)",
    "abuse: hostile clients beside an honest one (make test-abuse)",
    "interop: needs Apache Kafka's jars (make test-interop)",
    "simulated: whole simulated clusters and applications, seconds of a core each (make test-simulated)",
    "planted: each planted bug is found again at its known seed (make test-planted)",
    "spark: needs the extra [spark] (make test-spark)",
    "virtual_time: runs on the simulation's event loop; `virtual_time(False)` excepts one test of a module",
    "exhaustive: searches of quorum and controller, up to minutes of one core each (make test-exhaustive)",
    "widest: the two widest of them, many minutes and gigabytes of one core each (make test-widest)",
)
"""What `-m` selects. The widest selections are left out by pyproject.toml, and run by the targets named here."""


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A script's shell has its background jobs ignore it, and their children, too: tests interrupt processes.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


FOLDERS_OF_A_MARKER: Final = {HERE / marker: marker for marker in ("abuse", "interop", "spark")}
"""Folders in which every test has one marker: a run that leaves that out need not even import them."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a folder none of whose tests would run; one that is named on the command line is not asked about."""
    marker = FOLDERS_OF_A_MARKER.get(collection_path)
    return True if marker is not None and f"not {marker} " in f"{config.option.markexpr} " else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what transcripts print now into their files")
    parser.addoption("--secure", action="store_true", help="processes: clusters with TLS, SASL and ACLs")


def pytest_sessionstart(session: pytest.Session) -> None:
    plugins = session.config.pluginmanager
    if (terminal := plugins.get_plugin("terminalreporter")) is not None:
        plugins.register(FailuresAtOnce(terminal))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {nodeid: place for place, nodeid in enumerate(in_order([item.nodeid for item in items]))}
    items.sort(key=lambda item: places[item.nodeid])


def pytest_collection() -> None:
    """What is collected stays until the end: to look for garbage in it takes a tenth of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Take the tests and modules that stay until the end out of each garbage collection: simulated worlds make many."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> BySlowTest | None:
    """Return the scheduler of `--dist loadfile`; xdist's own otherwise."""
    return BySlowTest(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(autouse=True, scope="session")
def _no_clusters_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands find no profile and no local cluster but those of the test run, and a pytest within it no options."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        for name in ("TIERFETCH_BOOTSTRAP", "TIERFETCH_PROFILE", "PYTEST_ADDOPTS"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(autouse=True, scope="session")
def _forked_nodes() -> Iterator[None]:
    """Nodes are forked, where the platform can."""
    with contextlib.closing(ForkServer()) as server, pytest.MonkeyPatch.context() as patch:
        if sys.platform == "linux":
            patch.setattr(processes, "spawn", server.spawn)
        yield


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether transcripts are to be rewritten."""
    return bool(request.config.getoption("--rewrite"))


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the one event loop of a test: on virtual time where its module or itself is marked `virtual_time`.

    There a sleep costs nothing and is exact: when it ends, all that was to happen by then has happened. Real files,
    sockets and threads are refused.
    """
    marker = item.get_closest_marker("virtual_time")
    if marker is None or marker.args == (False,):
        return {"asyncio": asyncio.new_event_loop}
    return {"virtual": lambda: make_loop(Random(0))}
