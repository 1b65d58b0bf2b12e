"""Writes a volume to an address and kills itself with SIGKILL at its n-th write.

    python tests/support/write_remote.py ADDRESS FRAMES N

At N = 0 it says that it is done instead, before it marks the volume complete, and waits to be
killed. The segmenter is a stand-in.
"""

from __future__ import annotations

import os
import signal
import sys

from aaams_stream import store
from aaams_stream.store.bucket import BucketStore
from support.volumes import HEADER, VERSION, fill

if __name__ == "__main__":
    address, frames, dying = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    put, writes = BucketStore.put, 0

    async def counted(self, key, data, tag):
        global writes
        writes += 1
        if writes == dying:
            os.kill(os.getpid(), signal.SIGKILL)
        return await put(self, key, data, tag)

    BucketStore.put = counted
    writer = store.create(store.target_of(address), HEADER, VERSION)
    fill(writer, frames)
    if not dying:
        print(writes, flush=True)
        sys.stdin.read()
    writer.finish("complete")
    print(writes, flush=True)
