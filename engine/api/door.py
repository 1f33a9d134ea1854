"""The address a server listens on: who may come in, whether it is free, and the way from taking requests to closed."""

import errno
import ipaddress
import socket
from typing import Final

from aiohttp import web

from recorder.errors import UserError

LAST_WORDS_S: Final = 3.0
"""How long answers that are cut off may take to reach their clients."""


class DoorError(UserError):
    """The address can't be served: in use, not to be had, or open to others without a key."""


def check_host(host: str, api_key: str | None, *, allow_open: bool) -> None:
    """Raises DoorError where others could come in without a key."""
    if api_key or allow_open or _is_loopback(host):
        return
    raise DoorError(
        f"--host {host} can be reached from other machines: give --api-key KEY, or --allow-open if everybody may use it"
    )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises DoorError where the address is in use or can't be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except OverflowError as error:
        raise DoorError(f"--port {port} is no port; ports go from 0 to 65535") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise DoorError(
                f"port {port} of {host} is in use: stop who uses it, or choose another with --port"
            ) from error
        raise DoorError(f"can't listen on {host} port {port}: {error.strerror}") from error


class Door:
    """An application on a listening socket."""

    def __init__(self, app: web.Application, sock: socket.socket) -> None:
        self._sock = sock
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=LAST_WORDS_S)
        host, port = sock.getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def open(self) -> None:
        """Answer from now on."""
        await self._runner.setup()
        await web.SockSite(self._runner, self._sock).start()

    async def refuse_new(self) -> None:
        """Take no new connections; those that stand go on."""
        for site in list(self._runner.sites):
            await site.stop()

    async def close(self) -> None:
        """End what stands, giving handlers `LAST_WORDS_S` before they are cancelled. May be called again."""
        await self._runner.cleanup()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
