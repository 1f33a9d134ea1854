"""Stop strings: text may leave only when it can no longer be part of one."""

from collections.abc import Sequence


class StopFinder:
    """Passes text on until one of the stop strings is complete; the stop string itself is never passed on."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.found = False

    def feed(self, text: str) -> str:
        """The text that may leave after `text` has come; nothing more once a stop string was found."""
        if self.found or not self._stops:
            return "" if self.found else text
        self._held += text
        first = min((at for at in map(self._held.find, self._stops) if at >= 0), default=None)
        if first is not None:
            self.found = True
            return self._let_go(first)
        return self._let_go(len(self._held) - self._open_tail())

    def rest(self) -> str:
        """What was held back and turned out to be no stop string: the sequence has ended."""
        return "" if self.found else self._let_go(len(self._held))

    def _let_go(self, length: int) -> str:
        out, self._held = self._held[:length], self._held[length:]
        return out

    def _open_tail(self) -> int:
        """Length of the longest end of the held text that begins a stop string."""
        longest = min(len(self._held), max(map(len, self._stops)) - 1)
        return next((n for n in range(longest, 0, -1) if any(s.startswith(self._held[-n:]) for s in self._stops)), 0)
