"""A paper that one can draw on with the mouse: where the button went down, and where the pointer is."""

from textual import events
from textual.message import Message

from console.widgets.paper import Paper

Place = tuple[int, int]


class Dragged(Message):
    """The pointer was moved with the button down, from `start` to `end`, in cells of the paper; `done` when let go."""

    def __init__(self, start: Place, end: Place, *, done: bool) -> None:
        super().__init__()
        self.start = start
        self.end = end
        self.done = done

    def can_replace(self, message: Message) -> bool:
        """Only where the pointer is now counts."""
        return isinstance(message, Dragged) and not message.done and message.start == self.start


class DragPaper(Paper):
    """Tells where it is dragged over; a click is a drag that ends where it began."""

    _start: Place | None = None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """The button goes down."""
        if event.button == 1:
            self._start = (event.x, event.y)
            self.capture_mouse()
            self.post_message(Dragged(self._start, self._start, done=False))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """The pointer moves, with the button down or without."""
        if self._start is not None:
            self.post_message(Dragged(self._start, (event.x, event.y), done=False))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """The button is let go."""
        if self._start is not None:
            self.release_mouse()
            start, self._start = self._start, None
            self.post_message(Dragged(start, (event.x, event.y), done=True))
