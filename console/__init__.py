"""The console: a web page that shows a cluster, ours or Apache Kafka's. It reads, and changes nothing.

core/        is what is shown, as values: signs, bars, pages, which hosts may ask.
port         is what the console needs of a cluster.
looks        keeps what was read for a while, and asks the cluster only while it is looked at.
threads      calculates beside the event loop, without holding up the end of the process.
live         streams what changes on a page.
pages        puts together what each page shows.
routes       answers requests: HTML, JSON, static files, and the headers that protect them.
formats      writes values as the templates show them.
server       listens, and ends at once at Ctrl-C.

`templates/` and `static/` hold the HTML, what the console adds to the shared style sheet, and the script. What serves
needs the extra [console], and is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..doors import lazy_door
from .looks import INTERVAL_S
from .pages import Pages
from .port import ClusterReader, Look, UnknownNameError
from .threads import in_thread

if TYPE_CHECKING:
    from .routes import application
    from .server import listener, serve, url_of

__all__ = [
    "INTERVAL_S",
    "ClusterReader",
    "Look",
    "Pages",
    "UnknownNameError",
    "application",
    "in_thread",
    "listener",
    "serve",
    "url_of",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__, {"application": "routes", "listener": "server", "serve": "server", "url_of": "server"}
    )
