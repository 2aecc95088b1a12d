"""The one exception of the lane."""


class GuestError(Exception):
    """The guest, not the command in it, failed. The text is one line."""
