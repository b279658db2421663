"""The HTTP server of a run: its metrics at `/metrics`, and its health at `/health`."""

from __future__ import annotations

import json
import socket
import threading
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dataflow_model.metrics.health import HealthCheck

_HEALTH: Final = "/health"
_OF_WATERMARK: Final = "/health/watermark"


def start_server(port: int, host: str, metrics: Any, health: HealthCheck) -> tuple[WSGIServer, threading.Thread]:
    """Start a server in a thread of its own, and return both.

    Args:
        port: the port; 0 chooses a free one.
        host: the address to listen on.
        metrics: the WSGI application of the metrics.
        health: checks the run.

    Raises:
        OSError: if the port is in use.
    """

    def application(environment: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environment.get("PATH_INFO", "")
        if path not in (_HEALTH, _OF_WATERMARK):
            answer: Iterable[bytes] = metrics(environment, start_response)
            return answer
        is_good, facts = _checked(health, needs_watermark=path == _OF_WATERMARK)
        status = "200 OK" if is_good else "503 Service Unavailable"
        start_response(status, [("Content-Type", "application/json")])
        return [json.dumps(facts).encode()]

    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    kind: type[WSGIServer] = type("_Server", (_Server,), {"address_family": family})
    server = make_server(host, port, application, kind, _SilentHandler)
    thread = threading.Thread(target=server.serve_forever, name="dataflow_model: endpoint", daemon=True)
    thread.start()
    return server, thread


def _checked(health: HealthCheck, *, needs_watermark: bool) -> tuple[bool, dict[str, Any]]:
    """Return whether a run is healthy, and what is known; a run of which no report can be made is not."""
    try:
        state = health.check()
    except Exception as error:  # noqa: BLE001 - whatever keeps the run from being looked at is the answer
        return False, {"healthy": False, "error": f"{type(error).__name__}: {error}"}
    return state.is_healthy and (state.is_watermark_moving or not needs_watermark), state.facts()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _SilentHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Log nothing: probes come every few seconds."""
