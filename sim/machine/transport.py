"""One end of a simulated TCP connection: an `asyncio.Transport` whose bytes take time, and may never arrive.

    write -> outbox --(window)--> the peer's inbox, each piece with its moment of arrival --> the peer's protocol

| what happens                         | what this end sees                                                          |
|--------------------------------------|-----------------------------------------------------------------------------|
| the peer closes, or its process dies | `eof_received` after all that was sent before; a reset if bytes were unread |
| the peer is dead, we write           | a reset, one round trip later                                               |
| the peer's machine dies              | nothing: half open. A reset once it runs again and we have sent something   |
| the link is blocked                  | nothing arrives; what was sent does after the link is back and a back-off   |
| either lasts too long (below)        | the connection is lost with ETIMEDOUT                                       |

Rules:

* Bytes arrive in order, in pieces that have nothing to do with the writes: cut in two, or joined, at random.
* At most `WINDOW_BYTES` are on their way or unread; then writes stay in the outbox, and the protocol is asked to pause
  once they exceed the high-water mark, as with a kernel's buffers.
* A reader reads in the context of its own process: a paused one reads nothing and its senders fill up.
* Closing is the process's, delivering is the kernel's: what was sent before a process died still arrives.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from contextvars import Context
from random import Random
from typing import Any, Final, Protocol

from .link import Link
from .loop import SimLoop
from .process import Process

WINDOW_BYTES: Final = 256 * 1024
HIGH_WATER_BYTES: Final = 64 * 1024
RETRANSMISSION_TIMEOUT_S: Final = 924.6
"""Linux's default (tcp_retries2 = 15)."""

RETRANSMISSION_BACKOFF_MAX_S: Final = 2.0
SPLIT_SHARE: Final = 1 / 16
"""The share of deliveries that are cut in two."""
JOIN_SHARE: Final = 15 / 16
"""The share of writes that join the piece before them if it was written at the same moment."""
PACKET_BYTES: Final = 16 * 1024
"""The largest piece on links that are shared: small beside what passes in the time that matters there."""
SPLIT_DELAY_S: Final = 0.000_05

_EOF: Final = b""
_Piece = tuple[float, bytes | None]
"""(moment of arrival, bytes); empty is the end of the stream, None a reset."""


class Kernels(Protocol):
    """What a transport needs of the network: the kernels of all hosts."""

    loop: SimLoop
    rng: Random
    context: Context
    bytes_sent: int

    def is_running(self, host: str) -> bool: ...

    def await_boot(self, transport: SimTransport) -> None:
        """The transport's machine is down: it is silent until that machine runs again."""

    def forget(self, transport: SimTransport) -> None:
        """The transport's process has let go of it."""


class SimTransport(asyncio.Transport):
    """Made in pairs by the network; `peer` is the other end."""

    peer: SimTransport

    def __init__(
        self, network: Kernels, link: Link[SimTransport], process: Process | None, context: Context, names: Any
    ) -> None:
        super().__init__()
        self.link = link
        self.process = process
        self.is_gone = False
        """No process reads here any longer."""
        self.is_silent = False
        """The machine died: nothing leaves, nothing is taken."""
        self._network = network
        self._loop = network.loop
        self._context = context
        self._sockname, self._peername = names
        self._protocol: asyncio.BaseProtocol | None = None
        self._buffered: asyncio.BufferedProtocol | None = None
        self._inbox: deque[_Piece] = deque()
        self._inbox_bytes = 0
        self._outbox: deque[bytes | None] = deque()
        self._outbox_bytes = 0
        self._last_arrival_s = 0.0
        self._last_write_s = -1.0
        self._is_armed = False
        self._is_closing = False
        self._is_eof_sent = False
        self._is_reading_paused = False
        self._is_protocol_paused = False
        self._has_ack_held = False
        self._high_water_bytes = HIGH_WATER_BYTES
        self._low_water_bytes = HIGH_WATER_BYTES // 4
        self._stalled: asyncio.TimerHandle | None = None
        link.transports[self] = None

    # asyncio's interface.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername":
            return self._peername
        return self._sockname if name == "sockname" else default

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None, self
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self._buffered = protocol if isinstance(protocol, asyncio.BufferedProtocol) else None
        self._arm()

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return not (self._is_closing or self._is_reading_paused)

    def pause_reading(self) -> None:
        self._is_reading_paused = True

    def resume_reading(self) -> None:
        if self._is_reading_paused:
            self._is_reading_paused = False
            self._arm()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        self._high_water_bytes = high
        self._low_water_bytes = high // 4 if low is None else low
        self._pause_protocol()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_water_bytes, self._high_water_bytes

    def get_write_buffer_size(self) -> int:
        """What a kernel would not have taken."""
        return max(0, self._outbox_bytes + self.peer._inbox_bytes - WINDOW_BYTES)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self._is_eof_sent, "write after write_eof"
        if not self._is_closing and (size := len(data)):
            self._send(bytes(data), size)
            if self._outbox:
                self._pause_protocol()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not (self._is_closing or self._is_eof_sent):
            self._is_eof_sent = True
            self._send(_EOF, 0)

    def close(self) -> None:
        """What was written still leaves."""
        if self._is_closing:
            return
        self._send_end()
        self._lose(None)

    def abort(self) -> None:
        """What has not left yet never does."""
        if self._is_closing:
            return
        self._outbox.clear()
        self._outbox_bytes = 0
        self._send_end()
        self._lose(None)

    # The kernel's part.

    def kill(self, *, is_silent: bool) -> None:
        """The process died, or with `is_silent` its machine: no callback here any longer."""
        self.is_gone = True
        self._context = self._network.context
        if is_silent:
            self.is_silent = True
            self._outbox.clear()
            self._outbox_bytes = 0
            self._forget()
        elif not self._is_closing:
            self._send_end()
        self._is_closing = True
        self._is_armed = False
        self._arm()

    def reset(self) -> None:
        """A middlebox has ended the connection; each end is notified by itself."""
        if not self._is_closing:
            for pieces in (self._inbox, self._outbox):
                pieces.clear()
            self._inbox_bytes = self._outbox_bytes = 0
            self._lose(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))

    def answer_with_reset(self) -> None:
        """The machine runs again without this connection: the peer gets a reset if it has sent something."""
        if not self._network.is_running(self.link.source):
            self._network.await_boot(self)
            return
        self.is_silent = False
        if self._inbox or self.peer._outbox:
            self._refuse_peer()

    def recall(self) -> None:
        """The link is blocked: what is on its way has to be sent again."""
        now_s, peer = self._loop.now_s, self.peer
        lost = [piece for piece in peer._inbox if piece[0] > now_s]
        for _ in lost:
            peer._inbox.pop()
        for _, data in reversed(lost):
            self._outbox.appendleft(data)
            size = len(data or b"")
            self._outbox_bytes += size
            peer._inbox_bytes -= size
        if lost:
            self._stall()

    def link_is_back(self, delay_s: float) -> None:
        """Send again, after the back-off that retransmission had reached."""
        if self._outbox:
            self._loop.call_later(delay_s, self._flush, context=self._network.context)
        if self.peer._has_ack_held:
            self.peer._has_ack_held = False
            self._loop.call_later(delay_s, self.peer._window_opened, context=self._network.context)

    def _send(self, data: bytes | None, size: int) -> None:
        """Put a piece on its way if the window allows, else keep it."""
        if self._outbox or self.link.is_blocked or self.peer._inbox_bytes + size > WINDOW_BYTES:
            self._outbox.append(data)
            self._outbox_bytes += size
            self._flush()
        else:
            self._transmit(data, size)

    def _flush(self) -> None:
        """As much of the outbox as the window takes."""
        if self.link.is_blocked:
            self._stall()
            return
        peer = self.peer
        while self._outbox:
            data = self._outbox[0]
            room = WINDOW_BYTES - peer._inbox_bytes
            size = len(data or b"")
            if size and room <= 0:
                break
            self._outbox.popleft()
            if data is not None and size > room:
                self._outbox.appendleft(data[room:])
                data, size = data[:room], room
            self._outbox_bytes -= size
            self._transmit(data, size)
        if self.is_gone and not self._outbox:
            self.link.transports.pop(self, None)

    def _transmit(self, data: bytes | None, size: int) -> None:
        """On a link whose interfaces are shared in packets, so that the next one passes before all of it has passed."""
        if data is None or size <= PACKET_BYTES or not self.link.is_shared:
            self._transmit_piece(data, size)
            return
        for start in range(0, size, PACKET_BYTES):
            packet = data[start : start + PACKET_BYTES]
            self._transmit_piece(packet, len(packet))

    def _transmit_piece(self, data: bytes | None, size: int) -> None:
        peer, now_s = self.peer, self._loop.now_s
        if peer.is_silent:
            self._stall()
        network = self._network
        may_join = size and self._last_write_s == now_s and peer._inbox and not self.link.is_shared
        if may_join and network.rng.random() < JOIN_SHARE:
            at_s, before = peer._inbox[-1]
            if before and at_s > now_s:
                peer._inbox[-1] = at_s, before + data  # type: ignore[operator]  # not None: it has a size
                peer._inbox_bytes += size
                return
        at_s = self.link.arrival_s(now_s, network.rng, size)
        if at_s < self._last_arrival_s:
            at_s = self._last_arrival_s
        self._last_arrival_s, self._last_write_s = at_s, now_s
        peer._inbox.append((at_s, data))
        peer._inbox_bytes += size
        network.bytes_sent += size
        if not peer._is_armed:
            peer._arm()

    def _arm(self) -> None:
        if self._inbox and not self._is_armed and not self.is_silent and (self._protocol is not None or self.is_gone):
            self._is_armed = True
            self._loop.call_at(self._inbox[0][0], self._deliver, context=self._context)

    def _deliver(self) -> None:
        """What has arrived goes to the protocol."""
        self._is_armed = False
        if self.is_silent:
            return
        if self.is_gone or self._is_closing:
            self._discard()
            return
        inbox, now_s = self._inbox, self._loop.now_s
        if not inbox or (self._is_reading_paused and inbox[0][1] is not None):
            return
        arrived = b""
        while inbox and inbox[0][0] <= now_s and (data := inbox[0][1]):
            arrived = arrived + data if arrived else data
            inbox.popleft()
        if arrived:
            self._hand_over(arrived)
        elif inbox[0][0] <= now_s:
            self._end_of_stream(inbox.popleft()[1])
        if inbox and not self._is_reading_paused:
            self._arm()

    def _hand_over(self, data: bytes) -> None:
        rng, size = self._network.rng, len(data)
        if size > 1 and rng.random() < SPLIT_SHARE:
            cut = rng.randrange(1, size)
            self._put_back(data[cut:], self._loop.now_s + SPLIT_DELAY_S)
            data, size = data[:cut], cut
        protocol = self._buffered
        if protocol is None:
            self._inbox_bytes -= size
            self._protocol.data_received(data)  # type: ignore[union-attr]  # there is one: it is armed
        else:
            used = 0
            while used < size and not (self._is_closing or self._is_reading_paused):
                buffer = memoryview(protocol.get_buffer(size - used))
                taken = size - used
                if taken > len(buffer):
                    taken = len(buffer)
                buffer[:taken] = data if taken == size else data[used : used + taken]
                used += taken
                self._inbox_bytes -= taken
                protocol.buffer_updated(taken)
            if used < size:
                self._put_back(data[used:], self._loop.now_s)
        if self.peer._outbox or self.peer._is_protocol_paused:
            self._acknowledge()

    def _put_back(self, data: bytes, at_s: float) -> None:
        self._inbox.appendleft((at_s, data))

    def _end_of_stream(self, piece: bytes | None) -> None:
        if piece is None:
            self._inbox.clear()
            self._inbox_bytes = 0
            self._lose(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
            return
        assert isinstance(self._protocol, asyncio.Protocol | asyncio.BufferedProtocol), self._protocol
        if not self._protocol.eof_received():
            self.close()

    def _acknowledge(self) -> None:
        """The peer's window opens, when the acknowledgement gets through."""
        peer = self.peer
        if self.link.is_blocked:
            peer._has_ack_held = True
        else:
            peer._window_opened()

    def _window_opened(self) -> None:
        if self._outbox:
            self._flush()
        if self._is_protocol_paused and self.get_write_buffer_size() <= self._low_water_bytes:
            self._is_protocol_paused = False
            if not self._is_closing:
                self._loop.call_soon(self._resume_protocol, context=self._context)

    def _resume_protocol(self) -> None:
        assert self._protocol is not None, self
        if not self._is_closing:
            self._protocol.resume_writing()

    def _pause_protocol(self) -> None:
        if not self._is_protocol_paused and self.get_write_buffer_size() > self._high_water_bytes:
            self._is_protocol_paused = True
            assert self._protocol is not None, self
            self._protocol.pause_writing()

    def _discard(self) -> None:
        """No process reads: a peer that still sends gets a reset, if the machine still runs."""
        if not self._network.is_running(self.link.source):
            self._network.await_boot(self)
            return
        has_data = any(data for _, data in self._inbox)
        self._inbox.clear()
        self._inbox_bytes = 0
        if has_data and not self.peer._is_closing:
            self._refuse_peer()

    def _refuse_peer(self) -> None:
        self._inbox.clear()
        self._inbox_bytes = 0
        self._outbox.clear()
        self._outbox_bytes = 0
        if not self.peer.is_gone:
            self._send(None, 0)

    def _send_end(self) -> None:
        """The end of the stream; a reset if bytes that arrived were not read."""
        if self._inbox and self._inbox[0][0] <= self._loop.now_s and self._inbox[0][1]:
            self._refuse_peer()
        elif not self._is_eof_sent:
            self._is_eof_sent = True
            self._send(_EOF, 0)

    def _stall(self) -> None:
        if self._stalled is None and not self._is_closing:
            self._stalled = self._loop.call_later(RETRANSMISSION_TIMEOUT_S, self._give_up, context=self._context)

    def _give_up(self) -> None:
        self._stalled = None
        if not self._is_closing and (self.peer.is_silent or (self._outbox and self.link.is_blocked)):
            self._lose(TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))

    def _lose(self, error: Exception | None) -> None:
        self._is_closing = True
        if self._stalled is not None:
            self._stalled.cancel()
        self._loop.call_soon(self._connection_lost, error, context=self._context)

    def _connection_lost(self, error: Exception | None) -> None:
        self.is_gone = True
        self._context = self._network.context
        self._forget()
        if self._protocol is not None:
            self._protocol.connection_lost(error)
        self._arm()

    def _forget(self) -> None:
        if not self._outbox:
            self.link.transports.pop(self, None)
        if self.process is not None:
            self._network.forget(self)
