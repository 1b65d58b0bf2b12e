"""One stage per thread, with bounded queues between."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import closing

import pytest
from support.threads import PATIENCE, all_end

from aaams_stream.run import threads
from aaams_stream.run.threads import AsyncSink, prefetch


class BoomError(Exception):
    pass


def boom(_):
    raise BoomError


def test_prefetch_runs_ahead_but_not_far():
    taken, asked = [], []
    ahead = threading.Semaphore(0)

    def numbers():
        for n in range(100):
            taken.append(n)
            ahead.release()
            assert len(taken) <= len(asked) + 3
            yield n

    with closing(prefetch(numbers(), 3)) as stream:
        for expected in range(51):
            asked.append(expected)
            assert next(stream) == expected
            for _ in range(1 if expected else 4):  # waits until it has run ahead as far as it may
                assert ahead.acquire(timeout=PATIENCE)
    assert all_end("prefetch")
    assert len(taken) == 51 + 3


def test_prefetch_begins_no_item_before_there_is_room():
    """With room for one, the second is begun when the first was taken, and not before."""
    begun = threading.Semaphore(0)
    order = []

    def numbers():
        for n in range(3):
            order.append(f"{n} begun")
            begun.release()
            yield n

    with closing(prefetch(numbers(), 1)) as stream:
        for n in stream:
            for _ in range((2, 1, 0)[n]):
                assert begun.acquire(timeout=PATIENCE)
            order.append(f"{n} used")
    assert order == ["0 begun", "1 begun", "0 used", "2 begun", "1 used", "2 used"]


def test_prefetch_without_depth_takes_items_in_turn_on_the_thread_of_the_caller():
    threads, stopped = [], []

    def numbers():
        try:
            for n in range(3):
                threads.append(threading.current_thread())
                yield n
        finally:
            stopped.append("closed")

    with closing(prefetch(numbers(), 0, stop=lambda: stopped.append("stopped"))) as stream:
        assert next(stream) == 0
        assert len(threads) == 1
    assert threads == [threading.current_thread()]
    assert stopped == ["closed", "stopped"]


def test_prefetch_hands_over_an_error_that_came_before_the_first_item():
    class Broken:
        def __iter__(self):
            raise BoomError

    with closing(prefetch(Broken(), 2)) as stream, pytest.raises(BoomError):
        next(stream)


def relay(items):
    """Pass items on, as a stage does."""
    with closing(items):
        yield from items


def test_prefetch_behind_another_ends_it_while_that_one_waits_for_room():
    closed = threading.Event()

    def numbers():
        try:
            n = 0
            while True:
                yield (n := n + 1)
        finally:
            closed.set()

    inner = prefetch(numbers(), 2)  # held here, as a caller's variable or an error would hold it
    with closing(prefetch(relay(inner), 1)) as stream:
        assert next(stream) == 1
    assert all_end("prefetch")
    assert closed.is_set()


def test_prefetch_behind_another_ends_it_while_that_one_waits_for_an_item():
    silence, left = threading.Event(), threading.Event()

    def numbers():
        yield 1
        silence.wait()

    inner = prefetch(numbers(), 2, stop=silence.set, should_stop=left.is_set)
    with closing(prefetch(relay(inner), 1, stop=left.set)) as stream:
        assert next(stream) == 1
        assert not silence.is_set()
    assert all_end("prefetch")
    assert silence.is_set()


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


def test_async_sink_without_depth_handles_items_at_once():
    handled = []
    with AsyncSink(handled.append, 0) as sink:
        sink.put(1)
        assert handled == [1]
    with pytest.raises(BoomError), AsyncSink(boom, 0) as sink:
        sink.put(1)


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


def niceness():
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives threads priorities")
def test_threads_ahead_and_behind_step_aside_for_the_one_that_comes_first():
    """As the stages of a stream lie inside each other: a thread begins the one it takes from."""
    seen = []

    def stage(name, items=range(3)):
        for item in items:
            seen.append((name, niceness()))
            yield item

    ahead = prefetch(stage("ahead"), 1)
    labels = prefetch(stage("labels", ahead), 1, first=True)
    with (
        closing(prefetch(stage("behind", labels), 1)) as results,
        AsyncSink(lambda _: seen.append(("sink", niceness())), 1) as sink,
    ):
        for item in results:
            sink.put(item)
    own = niceness()
    aside = min(own + 4, 19)
    late = dict(seen)  # the last of each: the first item is taken before a thread steps aside
    assert late == {"ahead": aside, "labels": own, "behind": aside, "sink": aside}


def test_prefetch_leaves_a_deaf_iteration_alone(monkeypatch):
    """It would be waited for longer than the test may take."""
    waits, over = threading.Event(), threading.Event()

    def numbers():
        yield 0
        waits.set()
        assert over.wait(PATIENCE)

    monkeypatch.setattr(threads, "_PATIENCE", 2 * PATIENCE)
    with closing(prefetch(numbers(), 2, deaf=True)) as stream:
        assert next(stream) == 0
        assert waits.wait(PATIENCE)
    assert any(thread.name == "prefetch" for thread in threading.enumerate())
    over.set()
    assert all_end("prefetch")
