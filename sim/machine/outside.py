"""What the code of an application finds of the machine around it: on a simulated host, only what is simulated.

Nodes take time, chance and files from their environment. An application, and the client library that it uses, take
them from Python itself. While `Outside` is entered, these calls depend on whose process makes them:

| call, in a process of one of the hosts                           | what it gets                                   |
|------------------------------------------------------------------|------------------------------------------------|
| time.time, datetime.now, date.today, localtime, strftime ...     | the host's time of day; its time zone is UTC   |
| time.monotonic, perf_counter, process_time, thread_time          | virtual time                                   |
| random.*, os.urandom, secrets, uuid.uuid4                        | the seed's chance                              |
| time.sleep, uuid.uuid1, a thread that is started                 | NotSimulatedError                              |
| a socket that connects or binds, a name that is looked up, a     | NotSimulatedError, by Python's audit events    |
| process that is started, a file that is written or removed       |                                                |

Others (nodes, the scenario, other threads) get the real thing. Rules:

* A name is replaced in its module and wherever a module has imported it by name (`from time import monotonic`).
  `datetime` is replaced by a class of which no instance exists: what it returns are real ones.
* What is refused is kept in `SimLoop.refused`, because the code that reached for it may swallow the error.
* An audit hook cannot be removed: there is one, which does nothing while no `Outside` is entered. Files that are only
  read are left alone, and so are those of Python's cache of compiled modules.
* The state of `random` is restored at the end.
"""

from __future__ import annotations

import datetime
import os
import random
import sys
import sysconfig
import threading
import time
import uuid
from collections.abc import Callable
from functools import partial
from random import Random
from types import TracebackType
from typing import Any, Final, Self

from .clock import WallClock
from .loop import SimLoop
from .process import current_process

REFUSED_EVENTS: Final = {
    "os.exec": "a process that is replaced",
    "os.fork": "a process that is forked",
    "os.forkpty": "a process that is forked",
    "os.mkdir": "a directory that is made",
    "os.posix_spawn": "a process that is started",
    "os.remove": "a file that is removed",
    "os.rename": "a file that is renamed",
    "os.rmdir": "a directory that is removed",
    "os.spawn": "a process that is started",
    "os.system": "a process that is started",
    "os.truncate": "a file that is written",
    "socket.bind": "a socket that binds",
    "socket.connect": "a socket that connects",
    "socket.getaddrinfo": "a name that is looked up",
    "socket.gethostbyname": "a name that is looked up",
    "socket.sendto": "a socket that sends",
    "sqlite3.connect": "a database that is opened",
    "subprocess.Popen": "a process that is started",
}
"""Audit events, and what each is."""
LOOK_S: Final = 1e-9
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_COMPILED: Final = "__pycache__"
_STANDARD_LIBRARY: Final = sysconfig.get_paths()["stdlib"]
_UTC: Final = datetime.UTC

_entered: list[Outside] = []
_hooked: list[bool] = []


class Outside:
    """Enter it around a run. `clock_of` gives the clock of a host of the application; None for all others."""

    def __init__(self, loop: SimLoop, rng: Random, clock_of: Callable[[str], WallClock | None]) -> None:
        self._loop = loop
        self._rng = rng
        self._clock_of = clock_of
        self._looks = 0
        """How often virtual time was looked at."""
        self._undo: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        assert not _entered, "a simulated application runs already"
        if not _hooked:
            sys.addaudithook(_audit)
            _hooked.append(True)
        self._undo.append(partial(random.setstate, random.getstate()))
        random.seed(self._rng.getrandbits(64))
        for owner, name, replacement in self._replacements():
            self._replace(owner, name, replacement)
        self._replace_everywhere(self._clock_functions() | self._dates())
        _entered.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _entered.remove(self)
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()

    def clock(self) -> WallClock | None:
        """Return the clock of the application's process that runs now; None if another's code does."""
        process = current_process.get()
        return None if process is None else self._clock_of(process.host)

    def _passed_s(self, clock: WallClock) -> float:
        """Return virtual time, and a nanosecond for each look at it: code that looks until a deadline is over would
        otherwise look for ever, if it came at the very moment.
        """
        self._looks += 1
        return self._loop.now_s + self._looks * LOOK_S

    def check(self, event: str, arguments: tuple[Any, ...]) -> None:
        """NotSimulatedError if the event is of the application's process, and leaves the world."""
        what = REFUSED_EVENTS.get(event)
        # A descriptor was looked at when it was opened: Python's own cache is written through one.
        is_path = event == "open" and not isinstance(arguments[0], int)
        if is_path and arguments[2] & _WRITES and _COMPILED not in str(arguments[0]):
            what = "a file that is written"
        if what is not None and _COMPILED not in str(arguments[:1]) and self.clock() is not None:
            self._loop.refuse(f"{what} ({event} {', '.join(map(repr, arguments[:2]))})")

    # -- what takes the place of what -------------------------------------------------------------------------------

    def _replacements(self) -> list[tuple[Any, str, Any]]:
        """What is replaced where it is defined, and nowhere else."""
        return [
            (threading.Thread, "start", self._or_refused(threading.Thread.start, "a thread that is started")),
            (os, "urandom", self._urandom(os.urandom)),
            (random, "_urandom", self._urandom(os.urandom)),
            (uuid, "uuid1", self._or_refused(uuid.uuid1, "uuid1, of this machine's address and clock,")),
        ]

    def _clock_functions(self) -> dict[int, tuple[Any, Any]]:
        """The functions of `time` by their id: each with what takes its place."""
        of_day: dict[str, Callable[[WallClock], object]] = {
            "time": lambda clock: clock.now_ms() / 1000,
            "time_ns": lambda clock: clock.now_ms() * 1_000_000,
        }
        replaced = {name: self._depends(getattr(time, name), value) for name, value in of_day.items()}
        for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
            replaced[name] = self._depends(getattr(time, name), self._passed_s)
            nanoseconds = getattr(time, f"{name}_ns")
            replaced[f"{name}_ns"] = self._depends(nanoseconds, lambda clock: int(self._passed_s(clock) * 1e9))
        for name in ("gmtime", "localtime"):
            replaced[name] = self._of_moment(getattr(time, name), time.gmtime)
        replaced["ctime"] = self._of_moment(time.ctime, lambda seconds: time.asctime(_GMTIME(seconds)))
        replaced["asctime"] = self._of_moment(time.asctime, time.asctime, as_tuple=True)
        replaced["strftime"] = self._strftime(time.strftime)
        replaced["sleep"] = self._or_refused(time.sleep, "time.sleep (await asyncio.sleep instead)")
        return {id(getattr(time, name)): (getattr(time, name), value) for name, value in replaced.items()}

    def _dates(self) -> dict[int, tuple[Any, Any]]:
        stands_in = {datetime.datetime: _stand_in_datetime(self.clock), datetime.date: _stand_in_date(self.clock)}
        return {id(real): (real, value) for real, value in stands_in.items()}

    def _depends(self, real: Callable[[], object], simulated: Callable[[WallClock], object]) -> Callable[[], object]:
        def now() -> object:
            clock = self.clock()
            return real() if clock is None else simulated(clock)

        return now

    def _of_moment(self, real: Any, simulated: Any, *, as_tuple: bool = False) -> Callable[..., object]:
        """A function of a moment, which is now unless it is given."""

        def of(moment: Any = None) -> object:
            clock = self.clock()
            if clock is None:
                return real() if moment is None else real(moment)
            now_s = clock.now_ms() / 1000
            return simulated((_GMTIME(now_s) if as_tuple else now_s) if moment is None else moment)

        return of

    def _strftime(self, real: Callable[..., str]) -> Callable[..., str]:
        def strftime(pattern: str, moment: Any = None) -> str:
            clock = self.clock()
            if moment is None and clock is not None:
                moment = _GMTIME(clock.now_ms() / 1000)
            return real(pattern) if moment is None else real(pattern, moment)

        return strftime

    def _urandom(self, real: Callable[[int], bytes]) -> Callable[[int], bytes]:
        def urandom(size: int, /) -> bytes:
            return real(size) if self.clock() is None else self._rng.randbytes(size)

        return urandom

    def _or_refused(self, real: Callable[..., Any], what: str) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            if self.clock() is not None:
                self._loop.refuse(what)
            return real(*arguments, **keywords)

        return call

    # -- replacing ----------------------------------------------------------------------------------------------------

    def _replace(self, owner: Any, name: str, replacement: Any) -> None:
        real = getattr(owner, name)
        setattr(owner, name, replacement)
        self._undo.append(lambda: setattr(owner, name, real))

    def _replace_everywhere(self, replaced: dict[int, tuple[Any, Any]]) -> None:
        """In the module that defines it, and in all modules that have it by its own name or another; but for this one,
        and the standard library's, which were written for the real classes.
        """
        for module_name, module in list(sys.modules.items()):
            names = getattr(module, "__dict__", {})
            is_others = module_name != __name__ and not _is_standard(names.get("__file__"))
            if module in (time, datetime) or is_others:
                for name, value in list(names.items()):
                    found = replaced.get(id(value))
                    if found is not None and found[0] is value:
                        self._replace(module, name, found[1])


def _is_standard(path: object) -> bool:
    return not isinstance(path, str) or (path.startswith(_STANDARD_LIBRARY) and "site-packages" not in path)


_GMTIME: Final = time.gmtime
Clock = Callable[[], WallClock | None]


def _moment(clock: WallClock) -> datetime.datetime:
    return _REAL_DATETIME.fromtimestamp(clock.now_ms() / 1000, _UTC)


_REAL_DATETIME: Final = datetime.datetime
_REAL_DATE: Final = datetime.date


def _stand_in_datetime(clock: Clock) -> type:
    """A class whose instances are those of the real one, and whose `now` is the host's."""

    class DatetimeMeta(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, _REAL_DATETIME)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, _REAL_DATETIME)

    class Datetime(datetime.datetime, metaclass=DatetimeMeta):
        def __new__(cls, *arguments: Any, **keywords: Any) -> Any:
            return _REAL_DATETIME(*arguments, **keywords)

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            of_host = clock()
            if of_host is None:
                return _REAL_DATETIME.now(tz)
            return _moment(of_host).replace(tzinfo=None) if tz is None else _moment(of_host).astimezone(tz)

        @classmethod
        def utcnow(cls) -> Any:
            return cls.now(_UTC).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            return cls.now()

    Datetime.__name__ = Datetime.__qualname__ = "datetime"
    return Datetime


def _stand_in_date(clock: Clock) -> type:
    """A class whose instances are those of the real one, and whose `today` is the host's."""

    class DateMeta(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, _REAL_DATE)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, _REAL_DATE)

    class Date(datetime.date, metaclass=DateMeta):
        def __new__(cls, *arguments: Any, **keywords: Any) -> Any:
            return _REAL_DATE(*arguments, **keywords)

        @classmethod
        def today(cls) -> Any:
            of_host = clock()
            return _REAL_DATE.today() if of_host is None else _moment(of_host).date()

    Date.__name__ = Date.__qualname__ = "date"
    return Date


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _entered and (event == "open" or event in REFUSED_EVENTS):
        _entered[-1].check(event, arguments)
