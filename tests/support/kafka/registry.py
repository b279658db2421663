"""A schema registry in this process, with the answers of Confluent's; and values as their serializers write them."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

import attrs
import fastavro

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["DELAYS", "SmallRegistry", "encoded", "running_small_registry"]

DELAYS: Final = {
    "type": "record",
    "name": "Delay",
    "fields": [{"name": "carrier", "type": "string"}, {"name": "delay", "type": ["null", "long"]}],
}
"""A schema with the fields `carrier` and `delay`."""


def encoded(number: int, schema: Mapping[str, Any], row: Mapping[str, Any]) -> bytes:
    """Return a row in Avro, behind a zero byte and the id of its schema."""
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(dict(schema)), row)
    return b"\0" + number.to_bytes(4, "big") + data.getvalue()


@attrs.define
class SmallRegistry:
    """What a registry answers, and what it was asked for.

    Attributes:
        url: its address.
        answers: by path, a status and the answer; nothing else is there.
        asked: the paths of all requests.
        logins: the header with the login of each request.
    """

    url: str = ""
    answers: dict[str, tuple[int, Any]] = attrs.field(factory=dict)
    asked: list[str] = attrs.field(factory=list)
    logins: list[str | None] = attrs.field(factory=list)

    def register(self, number: int, schema: Any, **more: Any) -> None:
        """Add a schema with an id."""
        self.answers[f"/schemas/ids/{number}"] = 200, {"schema": json.dumps(schema), **more}


@contextlib.contextmanager
def running_small_registry() -> Iterator[SmallRegistry]:
    """Run a registry on a free port of loopback, which ends with the block."""
    registry = SmallRegistry(answers={"/schemas/types": (200, ["AVRO"])})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append(self.path)
            registry.logins.append(self.headers.get("Authorization"))
            status, answer = registry.answers.get(self.path, (404, {"error_code": 40403}))
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - so it is called there
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
