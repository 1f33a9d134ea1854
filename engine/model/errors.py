"""The error of everything about models: missing, damaged, of another architecture, not reachable."""

from recorder.errors import UserError


class ModelError(UserError):
    """A model that can't be used; the message says what, where, and what to do."""
