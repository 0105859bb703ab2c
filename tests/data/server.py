"""A real HTTP server on loopback that serves good, damaged, truncated and stalling files."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """`files` maps a path to its bytes; `truncated` and `stalling` hold the paths that end halfway."""

    def __init__(self):
        self.files, self.truncated, self.stalling, self.asked = {}, set(), set(), []
        self.released = threading.Event()
        self.url = ""


@contextmanager
def serving():
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            server.asked.append(self.path)
            content = server.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            whole = self.path not in server.truncated | server.stalling
            self.wfile.write(content if whole else content[: len(content) // 2])
            self.wfile.flush()
            if self.path in server.stalling:
                server.released.wait(20)

        def log_message(self, *_):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        http.shutdown()
        thread.join()
        http.server_close()
