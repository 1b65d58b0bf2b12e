"""Lets processes begin the same volume at the same moment, again and again.

    python tests/support/race.py FOLDER ROUNDS [OVERWRITE]

What a dead process may have left lies there already in most rounds. Prints the number of rounds,
and of those in which not exactly one process won and held the right to write, or a loser came away
with anything but one clear line. Each process is a fork of this one, so that imports are paid once.
"""

from __future__ import annotations

import os
import shutil
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from aaams_stream import store
from aaams_stream.errors import SinkError
from aaams_stream.store.lock import WriteLock
from support.volumes import HEADER, VERSION

STARTERS = 3


def start(path: Path, overwrite: bool, begin: int, tell: int, end: int) -> None:
    """Begin the volume when `begin` closes, tell how that went, and hold it until `end` closes."""
    os.read(begin, 1)
    try:
        writer = store.create(path, HEADER, VERSION, overwrite=overwrite)
        told = "won"
    except SinkError as error:
        writer, told = None, f"lost {error}"
    except BaseException:
        writer, told = None, f"failed {traceback.format_exc()}"
    os.write(tell, told.encode())
    os.close(tell)
    os.read(end, 1)
    os._exit(0 if writer is None or writer.frames == 0 else 1)


def lay_leftovers(path: Path, round_: int) -> None:
    """Leave behind what a process does that dies while it begins a volume."""
    for kind in (("new",), ("new", "old"), ("old",), ())[round_ % 4]:
        leftover = path.with_name(f".{path.name}.{kind}")
        (leftover / "labels" / "ids").mkdir(parents=True)
        for name in ("zarr.json", "labels/zarr.json", "labels/ids/zarr.json"):
            (leftover / name).write_text("{")


def one_round(path: Path, round_: int, overwrite: bool) -> list[str]:
    """Return what is wrong with how one round went."""
    shutil.rmtree(path, ignore_errors=True)
    lay_leftovers(path, round_)
    begin, release_begin = os.pipe()
    end, release_end = os.pipe()
    children, hearing = [], []
    for _ in range(STARTERS):
        hear, tell = os.pipe()
        child = os.fork()
        if not child:
            for other in (release_begin, release_end, hear):
                os.close(other)
            start(path, overwrite, begin, tell, end)
        os.close(tell)
        children.append(child)
        hearing.append(hear)
    os.close(begin)
    os.close(release_begin)
    told = []
    for hear in hearing:
        with os.fdopen(hear) as pipe:
            told.append(pipe.read())
    wrong = [text for text in told if not text.startswith(("won", f"lost {path}: "))]
    wrong += [text for text in told if len(text.splitlines()) > 1]
    if told.count("won") != 1:
        wrong.append(f"{told.count('won')} won: {told}")
    try:
        WriteLock(path, path).release()
        wrong.append("nobody holds the lock")
    except SinkError:
        pass
    left = sorted(entry.name for entry in path.parent.iterdir() if entry.name != path.name)
    if left:
        wrong.append(f"left behind: {left}")
    os.close(end)
    os.close(release_end)
    for child in children:
        if os.waitpid(child, 0)[1]:
            wrong.append("a child failed")
    return wrong


def main() -> None:
    """Run the rounds."""
    folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
    wrong = 0
    for round_ in range(rounds):
        found = one_round(folder / "a.zarr", round_, overwrite=bool(sys.argv[3:]))
        wrong += bool(found)
        for line in found:
            print(f"round {round_}: {line}", file=sys.stderr)
    print(rounds, wrong)


if __name__ == "__main__":
    main()
