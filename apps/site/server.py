"""A small web server: each replica listens on the port it was given."""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Page(BaseHTTPRequestHandler):
    """Answers every path, the health check among them."""

    def do_GET(self):
        body = b"ok\n" if self.path == "/healthz" else self.greeting()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code="-", size="-"):
        # A check every ten seconds is no news.
        if self.path != "/healthz":
            super().log_request(code, size)

    def greeting(self) -> bytes:
        return f"hello from replica {os.environ.get('RELAY_REPLICA', '0')}\n".encode()


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Page).serve_forever()
