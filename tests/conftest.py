"""What every test lives under."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import hypothesis
import pytest
from support.threads import our_threads

# A first call may compile for seconds; the same examples everywhere keep failures repeatable.
hypothesis.settings.register_profile("ours", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ours")

# A shell that starts the tests in the background has them ignore Ctrl-C, `nohup` has them ignore a
# closing terminal, and so would every process they start and mean to interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

PATIENCE = 300.0  # seconds until a thread counts as one that never ends, on the slowest machine


def _end(thread: threading.Thread, deadline: float) -> None:
    """Wait for a thread, also for one that another thread is about to start."""
    while thread.ident is None and time.monotonic() < deadline:
        time.sleep(0.001)  # nothing tells of a start but the thread itself
    thread.join(max(0.0, deadline - time.monotonic()))


@pytest.fixture(autouse=True)
def no_thread_left_behind() -> Iterator[None]:
    """Fail a test after which a thread it started still runs."""
    before = our_threads()
    yield
    deadline = time.monotonic() + PATIENCE
    for thread in our_threads() - before:
        _end(thread, deadline)
    left = sorted(thread.name for thread in our_threads() - before)
    if left:
        pytest.fail(f"the test left threads behind: {', '.join(left)}")


@pytest.fixture(scope="session")
def compiled() -> None:
    """Have the kernels of a stream compiled: a test that waits for frames waits for no compiler."""
    from aaams_stream.run.warmup import warm_following, warm_stream

    warm_stream()
    warm_following()


@pytest.fixture
def decoded(monkeypatch):
    """Return a list that grows with every decoded picture."""
    from aaams_stream.source.deinterlace import Deinterlacer

    pictures = []
    push = Deinterlacer.push

    def counted(deinterlacer, picture):
        pictures.append(picture.time)
        return push(deinterlacer, picture)

    monkeypatch.setattr(Deinterlacer, "push", counted)
    return pictures


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, str]]:
    """Serve S3 on loopback; return the environment that leads there."""
    from support.buckets import serving_s3

    with serving_s3() as environment:
        yield environment


@pytest.fixture
def bucket(s3, monkeypatch, request) -> str:
    """Return an address in a bucket below which nothing lies yet."""
    from support.buckets import BUCKET

    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{abs(hash(request.node.nodeid)):x}"
