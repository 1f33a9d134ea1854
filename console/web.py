"""The console in a browser: textual-serve on loopback, closed to pages of other sites."""

import shlex
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import web
from textual_serve.server import Server

from recorder.errors import UserError

HOST: Final = "127.0.0.1"
_POLICY: Final = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self' ws:"
)
"""The page of textual-serve would fetch a font from elsewhere; who looks at a trace tells nobody."""


class LocalServer(Server):
    """Runs the command anew for every browser that comes. A page of another site can't make it speak."""

    def __init__(self, command: Sequence[str], port: int) -> None:
        super().__init__(shlex.join(command), host=HOST, port=port, title="tailtrace")

    def initialize_logging(self) -> None:
        """Narration is the caller's."""

    async def on_startup(self, _app: web.Application) -> None:
        """Say where it is."""
        sys.stderr.write(f"tailtrace: the console is at {self.public_url} (ctrl+c ends it)\n")
        sys.stderr.flush()

    async def handle_index(self, request: web.Request) -> Any:  # noqa: ANN401  # textual-serve has no types for it
        """The page."""
        self._check(request)
        response = await super().handle_index(request)
        response.headers["Content-Security-Policy"] = _POLICY
        return response

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """The terminal of one browser."""
        self._check(request)
        return await super().handle_websocket(request)

    def _check(self, request: web.Request) -> None:
        """Only pages from here, asked for by this name: no other site's script, and no name that was bent to here."""
        ours = {f"{HOST}:{self.port}", f"localhost:{self.port}"}
        origin = request.headers.get("Origin")
        if request.host not in ours or (origin is not None and urlsplit(origin).netloc not in ours):
            raise web.HTTPForbidden(text="tailtrace shows runs to pages of its own only")


def serve(arguments: Sequence[str | Path], port: int) -> int:
    """Show `tailtrace open` with these arguments to browsers on this machine, until interrupted."""
    try:
        socket.create_server((HOST, port)).close()  # before anybody is told that it is there
    except OSError as error:
        raise UserError(f"--web: can't listen on {HOST} port {port}: {error.strerror}; give another --port") from error
    LocalServer([sys.executable, "-m", "console.cli", "open", *map(str, arguments)], port).serve()
    return 0
