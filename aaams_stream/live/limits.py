"""How often something may be asked."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aaams_stream.live.clock import Clock


class Allowance:
    """Allows `burst` at once and `rate` a second in the long run; asked by several threads."""

    def __init__(self, rate: float, burst: int, clock: Clock) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left = float(burst)
        self._at = clock.now()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Tell whether one more is allowed, and count it if so."""
        with self._lock:
            now = self._clock.now()
            self._left = min(self._burst, self._left + self._rate * (now - self._at))
            self._at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True
