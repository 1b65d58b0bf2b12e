"""The preview's door: who waits there costs nothing and keeps nobody out."""

from __future__ import annotations

import contextlib
import resource
import socket
import threading
from urllib.parse import urlsplit

import pytest
from support.clocks import HandClock
from support.live import preview, wait_until, watch
from support.viewers import Viewer, ask

from aaams_stream.live import door
from aaams_stream.live.limits import Allowance

pytestmark = pytest.mark.usefixtures("compiled")
BEGUN = b"GET /stream HTTP/1.1\r\nHost: x\r\n"


def connect(url):
    server = urlsplit(url)
    return socket.create_connection((server.hostname, server.port))


def is_open(connection):
    """Tell whether the other side has not closed a connection that nobody sends on."""
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


@pytest.mark.parametrize("begun", [b"", BEGUN])
def test_door_lets_a_newcomer_in_past_any_number_of_slow_ones(tmp_path, begun):
    with preview(tmp_path) as (loop, server), contextlib.ExitStack() as stack:
        watch(loop, 1)
        threads = threading.active_count()
        slow = [stack.enter_context(connect(server.url)) for _ in range(300)]
        for connection in slow:
            with contextlib.suppress(ConnectionError):  # it had to make room
                connection.sendall(begun)
        for _ in range(3):
            with Viewer(server.url) as viewer:
                viewer.see_frame()
        assert ask(server.url, "/")[0] == 200
        wait_until(lambda: sum(map(is_open, slow)) <= door._MOST_OF_AN_ADDRESS)
        assert is_open(slow[-1])
        assert threading.active_count() <= threads


@pytest.mark.parametrize("begun", [b"", BEGUN])
def test_door_turns_away_who_has_not_shown_his_right_in_time(tmp_path, begun):
    clock = HandClock()
    with preview(tmp_path, clock=clock) as (_, server), connect(server.url) as slow:
        slow.sendall(begun)
        wait_until(lambda: ask(server.url, "/")[0] == 200)  # the door has seen both
        clock.advance(door.PATIENCE - 0.1)
        assert ask(server.url, "/")[0] == 200
        assert is_open(slow)
        clock.advance(0.2)
        wait_until(lambda: not is_open(slow))


def test_door_takes_a_request_in_small_parts(shared):
    url = shared[1].url
    server = urlsplit(url)
    request = f"GET /?{server.query} HTTP/1.1\r\nHost: {server.netloc}\r\n\r\n".encode()
    with connect(url) as connection:
        for byte in request:
            connection.sendall(bytes([byte]))
        assert connection.recv(12) == b"HTTP/1.1 200"


def test_door_answers_so_many_strangers_a_second_and_its_own_viewers_always(tmp_path):
    clock = HandClock()
    with preview(tmp_path, clock=clock) as (_, server):
        stranger = server.url.split("?")[0]
        answered = 0
        for _ in range(150):
            with contextlib.suppress(ConnectionError):
                answered += ask(stranger, "/")[0] == 401
        assert answered == 2 * door._STRANGERS
        assert ask(server.url, "/")[0] == 200
        with Viewer(server.url) as viewer:
            viewer.see_frame()
        clock.advance(1.0)
        assert ask(stranger, "/")[0] == 401


def test_door_copes_with_descriptors_beyond_1023(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        pytest.skip("this system gives a process too few descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    try:
        with preview(tmp_path) as (_, server), contextlib.ExitStack() as stack:
            low = [stack.enter_context(open("/dev/null")) for _ in range(1100)]
            assert low[-1].fileno() > 1023
            with Viewer(server.url) as viewer:
                viewer.see_frame()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_allowance_grows_with_time_up_to_its_burst():
    clock = HandClock()
    allowance = Allowance(2.0, 3, clock)
    assert [allowance.take() for _ in range(4)] == [True, True, True, False]
    clock.advance(0.5)
    assert [allowance.take() for _ in range(2)] == [True, False]
    clock.advance(100)
    assert [allowance.take() for _ in range(4)] == [True, True, True, False]
