"""The palette: the actions of the key table, found by name."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.dom import DOMNode

from console.keys import Key, Scope, keys_of
from console.screens.base import RunScreen

if TYPE_CHECKING:
    from console.app import Tailtrace


class TableCommands(Provider):
    """What the keys do, for the screen the palette was called from."""

    async def discover(self) -> Hits:
        """Everything, before anything is typed."""
        for key in self._keys():
            yield DiscoveryHit(Content(_title(key)), partial(self._act, key), help=key.help)

    async def search(self, query: str) -> Hits:
        """What matches the letters typed."""
        matcher = self.matcher(query)
        for key in self._keys():
            if (score := matcher.match(_title(key))) > 0:
                yield Hit(score, matcher.highlight(_title(key)), partial(self._act, key), help=key.help)

    def _keys(self) -> Iterator[Key]:
        scopes = self.screen.scopes() if isinstance(self.screen, RunScreen) else ()
        table = cast("Tailtrace", self.app).keys
        return (key for key in keys_of(*scopes, Scope.EVERYWHERE, table=table) if key.palette)

    async def _act(self, key: Key) -> None:
        target: DOMNode = self.screen
        if key.scope is Scope.DETAIL and self.screen.focused is not None:
            target = self.screen.focused
        await self.app.run_action(key.action, default_namespace=target)


def _title(key: Key) -> str:
    return f"{key.title}  ({key.shown})"
