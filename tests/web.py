"""A web server on this machine that misbehaves as it is told."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Served:
    """What there is at each path, what is done with each request in turn, and what was asked for."""

    address: str
    files: dict[str, bytes] = field(default_factory=dict)
    faults: list[int] = field(default_factory=list)  # a status, or the number of bytes to send before hanging up
    ranges: list[str | None] = field(default_factory=list)
    knows_ranges: bool = True
    tells_length: bool = True


@contextmanager
def serving() -> Iterator[Served]:
    """The server, for as long as it is needed."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            served.ranges.append(asked)
            fault = served.faults.pop(0) if served.faults else None
            if fault in (404, 429, 503) or self.path not in served.files:
                self.send_error(fault or 404)
                return
            body = served.files[self.path]
            start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and served.knows_ranges else 0
            if start >= len(body):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            if served.tells_length:
                self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            self.wfile.write(body[start:] if fault is None else body[start : start + fault])

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        served = Served(f"http://127.0.0.1:{running.server_port}")
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield served
        finally:
            running.shutdown()
            thread.join()
