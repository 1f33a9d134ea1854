"""An S3-compatible server on loopback, as a process of its own; nothing in it is a double of our code."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import s3fs
from fsspec import AbstractFileSystem

from tests.recorder.processes import until

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


@contextmanager
def s3_server(log: Path) -> Iterator[str]:
    """The server's address; `log` gets a line for each request it answers."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=out, stderr=out
        )
        try:
            until(lambda: process.poll() is not None or _answers(port), "the S3 server to answer")
            assert process.poll() is None, log.read_text()
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def s3_environment(address: str) -> dict[str, str]:
    """What a process needs to reach it, and to find no other credentials."""
    nowhere = {
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    return {**CREDENTIALS, **nowhere, "AWS_ENDPOINT_URL": address}


def filesystem(address: str) -> AbstractFileSystem:
    """fsspec's view of the server, for tests to put files there."""
    key, secret = CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"]
    return s3fs.S3FileSystem(key=key, secret=secret, endpoint_url=address, use_listings_cache=False)
