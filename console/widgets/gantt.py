"""The timeline's widget: draws one frame, and tells what was clicked in it."""

from collections.abc import Callable

from textual import events
from textual.message import Message

from console.lanes import Lanes
from console.widgets.chart import Frame, chart, geometry
from console.widgets.ink import Line
from console.widgets.paper import Paper


class Gantt(Paper):
    """Shows the frame that `look` gives; None while there is nothing yet."""

    class Picked(Message):
        """A click: on instant `t` (None: on the labels) of lane `index` (None: on no lane)."""

        def __init__(self, t: int | None, index: int | None) -> None:
            super().__init__()
            self.t = t
            self.index = index

    class Turned(Message):
        """The wheel: `lines` down (negative: up); with ctrl it means zoom."""

        def __init__(self, lines: int, zoom: bool) -> None:
            super().__init__()
            self.lines = lines
            self.zoom = zoom

    def __init__(self, look: Callable[[], tuple[Lanes, Frame] | None]) -> None:
        super().__init__(self._picture)
        self._look = look

    def on_click(self, event: events.Click) -> None:
        """Seek and select."""
        looked = self._look()
        if looked is None:
            return
        lanes, frame = looked
        shape = geometry(lanes, self.size.width, self.size.height)
        column, row = event.x - shape.gutter, event.y - shape.strips
        shown = lanes.alive(frame.window)
        index = int(shown[frame.top + row]) if row >= 0 and frame.top + row < len(shown) else None
        window = frame.window.fit() if event.y == 0 else frame.window
        self.post_message(self.Picked(window.instant(column, shape.chart) if column >= 0 else None, index))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The next lanes."""
        self.post_message(self.Turned(1, event.ctrl))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The lanes before."""
        self.post_message(self.Turned(-1, event.ctrl))

    def _picture(self, width: int, height: int) -> list[Line]:
        looked = self._look()
        return [[("reading the run …", "muted")]] if looked is None else chart(*looked, width, height)
