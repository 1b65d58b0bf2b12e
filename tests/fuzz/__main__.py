"""All campaigns, or one, for so many minutes: `python -m tests.fuzz --minutes 30`."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS.parent), str(TESTS)]

from fuzz import containers  # noqa: E402  found only now
from fuzz.harness import campaign  # noqa: E402

NAMES = ("containers", "settings", "arguments", "volumes", "kills", "races")


def tell(line: str) -> None:
    """Print what is wrong as soon as it is known."""
    print(f"WRONG {line}", flush=True)


def count(cases: int) -> None:
    """Say now and then how far a campaign is."""
    if cases % (10 if cases <= 200 else 100) == 0:
        print(f"{time.strftime('%H:%M:%S')} {cases} cases", flush=True)


def main() -> int:
    """Run campaigns; 1 if one of them found something."""
    known = [name for name in NAMES if importlib.util.find_spec(f"fuzz.{name}")]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="together, without --cases")
    parser.add_argument("--cases", type=int, help="of each, however long they take")
    parser.add_argument("--only", choices=known)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--films", type=Path, help="a folder of films to damage, too")
    args = parser.parse_args()
    names = [args.only] if args.only else known
    if args.films is not None:
        containers.MORE += [path for path in sorted(args.films.iterdir()) if path.is_file()]
    found = 0
    for name in names:
        print(f"{name}: seed {args.seed}", flush=True)
        module, seconds = importlib.import_module(f"fuzz.{name}"), 60 * args.minutes / len(names)
        if hasattr(module, "campaign"):  # one of its own
            cases = [0]
            with tempfile.TemporaryDirectory() as folder:
                wrong = module.campaign(
                    args.cases or seconds,
                    args.seed,
                    Path(folder),
                    tell,
                    done=lambda number, cases=cases: (cases.append(number), count(number)),
                )
            print(f"{name}: {cases[-1]} cases, {len(wrong)} wrong")
        else:
            limits = {"count": args.cases, "seconds": None if args.cases else seconds}
            report = campaign(module, args.seed, **limits, tell=tell, done=count)
            wrong, took = report.failures, report.seconds
            print(f"{name}: {report.cases} cases, {len(wrong)} wrong, {took:.0f} s")
        found += len(wrong)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
