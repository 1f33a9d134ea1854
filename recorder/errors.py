"""Errors whose message is meant for the person at the keyboard."""


class UserError(Exception):
    """Says what is wrong, where, and what to do. The command line prints it and exits with 2, without a traceback."""
