"""A bucket on loopback, and what lies in it."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import obstore
import pytest
from obstore.store import from_url

from aaams_stream.store.bucket import BucketStore

BUCKET = "films"


@contextmanager
def serving_s3() -> Iterator[dict[str, str]]:
    """Serve S3 with one bucket as long as it is needed; yield the environment that leads there."""
    script = Path(__file__).with_name("s3_server.py")
    # warnings of the server's libraries are not ours
    command = [sys.executable, "-W", "ignore", str(script)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        asking = http.client.HTTPConnection("127.0.0.1", port)
        asking.request("PUT", f"/{BUCKET}")
        assert asking.getresponse().status == 200
        asking.close()
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        server.communicate()  # which closes its input


def objects(address: str) -> dict[str, bytes]:
    """Return the content of every object below an address, as `support.volumes.files` does."""
    store = from_url(address)
    found = [meta["path"] for batch in obstore.list(store) for meta in batch]
    return {name: bytes(obstore.get(store, name).bytes()) for name in sorted(found)}


def put_all(address: str, folder: Path) -> None:
    """Copy a folder below an address."""
    store = from_url(address)
    for file in folder.rglob("*"):
        if file.is_file():
            obstore.put(store, file.relative_to(folder).as_posix(), file.read_bytes())


def note_requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that fills with the keys that buckets are asked for from now on."""
    asked: list[str] = []
    get = BucketStore.get

    async def noted(self, key, *rest):
        asked.append(key)
        return await get(self, key, *rest)

    monkeypatch.setattr(BucketStore, "get", noted)
    return asked


def environment() -> dict[str, str]:
    """Return that of a process started from here, which finds the tests' modules."""
    tests = Path(__file__).parent.parent
    places = os.pathsep.join([str(tests.parent), str(tests)])
    return {**os.environ, "PYTHONPATH": places}
