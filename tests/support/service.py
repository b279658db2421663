"""A service over HTTP on this machine, which fails and stalls as it is told, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Service", "ask", "ask_async", "running_service"]


@attrs.define
class Service:
    """What a service has been asked, and how it answers: `name of CODE`, and a number that differs from call to call.

    Attributes:
        port: its port on loopback.
        asked: how often it was asked, by code.
        at_once: the greatest number of requests that it had at the same time.
        failures: how many requests for a code fail before one is answered.
        stalls: the codes for which it does not answer.
        delay: how long it takes to answer, in seconds.
    """

    port: int = 0
    asked: Counter[str] = attrs.field(factory=Counter)
    at_once: int = 0
    failures: dict[str, int] = attrs.field(factory=dict)
    stalls: set[str] = attrs.field(factory=set)
    delay: float = 0.0
    _now: int = 0
    _lock: Any = attrs.field(factory=threading.Lock)
    _ended: threading.Event = attrs.field(factory=threading.Event)

    def answer(self, code: str) -> tuple[int, str]:
        """Return the status and the text of an answer."""
        with self._lock:
            self.asked[code] += 1
            number = sum(self.asked.values())
            self._now += 1
            self.at_once = max(self.at_once, self._now)
        try:
            if code in self.stalls:
                self._ended.wait(60)
            time.sleep(self.delay)
            fails = self.asked[code] <= self.failures.get(code, 0)
            return (503, "busy") if fails else (200, f"name of {code} #{number}")
        finally:
            with self._lock:
                self._now -= 1

    def end(self) -> None:
        """Let go of the requests that stall."""
        self._ended.set()


@contextlib.contextmanager
def running_service() -> Iterator[Service]:
    """Run a service, which ends with the block."""
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = service.answer(self.path.removeprefix("/"))
            with contextlib.suppress(OSError):  # who has asked waits no longer
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        service.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield service
        finally:
            service.end()
            server.shutdown()
            thread.join()


def ask(code: str, port: int) -> str:
    """Ask for the name of a code, and wait for it."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{code}", timeout=60) as answer:
            text: str = answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            raise ConnectionError(f"HTTP/1.0 {error.code} {error.reason}") from None
    return text.partition(" #")[0]


async def ask_async(code: str, port: int) -> str:
    """Ask for the name of a code."""
    return (await ask_with_number(code, port)).partition(" #")[0]


async def ask_with_number(code: str, port: int) -> str:
    """Ask for the name of a code, with the number of the request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET /{code} HTTP/1.0\r\n\r\n".encode())
        head, _, text = (await reader.read()).decode().partition("\r\n\r\n")
    finally:
        writer.close()
    if " 200 " not in head.splitlines()[0]:
        raise ConnectionError(head.splitlines()[0])
    return text
