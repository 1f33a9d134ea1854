"""The console in a browser: closed to other sites, and used in a real one where the machine has one."""

import asyncio
import base64
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from console.cli import main
from tests.console.tui_runs import served

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0",
)  # fmt: skip
_DEADLINE_S = 60
_ESCAPES = re.compile(r"\x1b\[[0-9;?<>]*[A-Za-z]")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A served console, as its own process."""
    folder, port = tmp_path_factory.mktemp("web"), free_port()
    run = served(folder)
    command = [sys.executable, "-m", "console.cli", "open", str(run), "--web", "--port", str(port)]
    environment = {**os.environ, "TAILTRACE_STATE": str(folder / "state")}
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert server.stderr is not None
    assert f"http://127.0.0.1:{port}" in server.stderr.readline()
    yield f"127.0.0.1:{port}"
    server.send_signal(signal.SIGINT)
    assert server.wait(_DEADLINE_S) == 0


def status_of(address: str, path: str, **headers: str) -> tuple[int, dict[str, str]]:
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(f"http://{address}{path}", headers=headers)) as answer:
                return answer.status, dict(answer.headers)
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers)
        except urllib.error.URLError:  # it says where it is an instant before it listens
            assert time.monotonic() < deadline, "it never listened"
            time.sleep(0.02)


def test_it_speaks_to_pages_of_its_own_only(address: str) -> None:
    code, headers = status_of(address, "/")
    assert code == 200
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert status_of(address, "/ws", Origin="http://elsewhere.example")[0] == 403
    assert status_of(address, "/", Host="elsewhere.example")[0] == 403


def test_bad_ports_are_told(address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(served(tmp_path, count=2))
    assert main(["open", run, "--web", "--port", "0"]) == 2
    assert "ports go from 1 to 65535" in capsys.readouterr().err
    assert status_of(address, "/")[0] == 200
    assert main(["open", run, "--web", "--port", address.partition(":")[2]]) == 2
    said = capsys.readouterr().err
    assert "can't listen on 127.0.0.1" in said
    assert "the console is at" not in said


class Page:
    """A page of a real browser, through its debugging protocol."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._sent = 0
        self.shown = ""
        """What the terminal in the page was sent, without its escapes."""

    async def call(self, method: str, **params: str | int) -> dict[str, Any]:
        """One command, and its result."""
        self._sent += 1
        number = self._sent
        await self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while (message := await self._receive()).get("id") != number:
            pass
        result: dict[str, Any] = message["result"]
        return result

    async def until_shown(self, *words: str) -> None:
        """Wait until all the words have come."""
        async with asyncio.timeout(_DEADLINE_S):
            while not all(word in self.shown for word in words):
                await self._receive()

    async def press(self, key: str) -> None:
        """A key, as a person would; what was shown before is forgotten."""
        self.shown = ""
        code = ord(key.upper())
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key, windowsVirtualKeyCode=code)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    async def click(self, x: int, y: int) -> None:
        """The left button, at a place of the page."""
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(await self._socket.recv())
        if message.get("method") == "Network.webSocketFrameReceived":
            payload = message["params"]["response"]["payloadData"]
            with contextlib.suppress(ValueError):  # what is not base64 is no output of the terminal
                self.shown += _ESCAPES.sub("", base64.b64decode(payload, validate=True).decode("utf-8", "replace"))
        return message


@contextlib.asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Page]:
    assert BROWSER is not None
    process = subprocess.Popen(
        [BROWSER, *QUIET, f"--user-data-dir={folder}", "--window-size=1400,900", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        told = folder / "DevToolsActivePort"
        deadline = time.monotonic() + _DEADLINE_S
        while not told.exists() or not told.read_text().strip():
            assert time.monotonic() < deadline, "the browser never started"
            await asyncio.sleep(0.05)
        with urllib.request.urlopen(f"http://127.0.0.1:{told.read_text().split()[0]}/json") as answer:
            page = next(tab for tab in json.load(answer) if tab["type"] == "page")
        async with connect(page["webSocketDebuggerUrl"], max_size=None) as socket:
            yield Page(socket)
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(BROWSER is None, reason="no browser on this machine")
async def test_a_real_browser_shows_the_console_and_takes_keys(address: str, tmp_path: Path) -> None:
    assert status_of(address, "/")[0] == 200
    async with browser(tmp_path / "profile") as page:
        await page.call("Network.enable")
        await page.call("Page.enable")
        await page.call("Page.navigate", url=f"http://{address}/")
        await page.until_shown("Overview", "Latency", "Causes", "24 ok")
        picture = await page.call("Page.captureScreenshot")
        await page.click(600, 640)
        await page.press("2")
        await page.until_shown("chat-000")
        assert (await page.call("Page.captureScreenshot"))["data"] != picture["data"]
