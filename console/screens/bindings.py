"""The key table in Textual's words."""

from textual.binding import Binding

from console.keys import Scope, keys_of


def bindings(*scopes: Scope) -> list[Binding]:
    """Bindings for the keys of the scopes."""
    return [Binding(key.keys, key.action, key.title, show=False, id=key.id) for key in keys_of(*scopes)]
