"""A client without manners: sends a request over a bare socket, and reads when it likes."""

import json
import socket


def post(
    address: tuple[str, int],
    body: dict[str, object],
    request_id: str,
    receive_buffer: int = 0,
    encoding: str = "utf-8",
) -> socket.socket:
    """Send a completion request and return the socket with nothing read from it."""
    sock = socket.socket()
    if receive_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.settimeout(60)
    sock.connect(address)
    payload = json.dumps(body)
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: {request_id}\r\nConnection: close\r\n"
    sock.sendall(f"{head}Content-Length: {len(payload)}\r\n\r\n{payload}".encode(encoding))
    return sock


def read_all(sock: socket.socket) -> bytes:
    """Everything until the server closes."""
    parts = []
    while data := sock.recv(1 << 16):
        parts.append(data)
    return b"".join(parts)
