"""`python -m aaams_stream`."""

from __future__ import annotations

import sys

from aaams_stream.cli import main

if __name__ == "__main__":
    sys.exit(main())
