"""A preview that tests of one file share."""

from __future__ import annotations

import pytest
from support.live import preview
from support.viewers import Viewer


@pytest.fixture(scope="module")
def shared(compiled, tmp_path_factory):
    """Yield a loop and its server, which several tests look at and none changes for good."""
    with preview(tmp_path_factory.mktemp("shared")) as (loop, server):
        with Viewer(server.url) as viewer:
            viewer.see_frame()
        yield loop, server
