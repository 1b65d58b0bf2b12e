"""One stage per thread, with bounded queues between."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest
from support.threads import PATIENCE, all_end

from aaams_stream.run.threads import AsyncSink, prefetch


class BoomError(Exception):
    pass


def boom(_):
    raise BoomError


def test_prefetch_runs_ahead_but_not_far():
    taken, given = [], []
    ahead = threading.Semaphore(0)

    def numbers():
        for n in range(100):
            taken.append(n)
            ahead.release()
            assert len(taken) - len(given) <= 3 + 2  # in the queue, at hand here and there
            yield n

    with closing(prefetch(numbers(), 3)) as stream:
        for n in stream:
            given.append(n)
            for _ in range(5 if n == 0 else 1):  # waits until it has run ahead as far as it may
                assert ahead.acquire(timeout=PATIENCE)
            if n == 50:
                break
    assert given == list(range(51))
    assert all_end("prefetch")
    assert len(taken) <= 51 + 4


def test_prefetch_hands_errors_to_the_consumer():
    def fails():
        yield 1
        raise BoomError

    with closing(prefetch(fails(), 3)) as stream:
        assert next(stream) == 1
        with pytest.raises(BoomError):
            next(stream)


def test_async_sink_handles_everything_in_order_before_it_is_left():
    handled = []
    full = threading.Event()

    def handle(n):
        assert full.wait(PATIENCE)
        handled.append(n)

    with AsyncSink(handle, 2) as sink:
        for n in range(20):
            sink.put(n)
            if n == 2:  # one at hand, two waiting
                assert handled == []
                full.set()
    assert handled == list(range(20))


def test_async_sink_raises_at_the_end_what_nobody_has_seen():
    with pytest.raises(BoomError), AsyncSink(boom, 2) as sink:
        sink.put(1)


def test_prefetch_ends_when_it_should_stop_while_nothing_comes():
    silence = threading.Event()
    asked = []

    def numbers():
        yield 1
        silence.wait()

    def should_stop():
        asked.append(True)
        return len(asked) == 2

    stream = prefetch(numbers(), 3, stop=silence.set, should_stop=should_stop)
    assert list(stream) == [1]
    assert len(asked) == 2


def put_for_ever(sink):
    while True:
        sink.put(1)


def test_async_sink_raises_an_error_at_a_later_put():
    with pytest.raises(BoomError), AsyncSink(boom, 2) as sink:
        put_for_ever(sink)
