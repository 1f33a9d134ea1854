"""The timeline's widget: draws one frame, and tells what the mouse means in it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from textual import events
from textual.message import Message

from console.lanes import Lanes
from console.selecting import Stretch
from console.widgets.chart import chart
from console.widgets.frame import Frame, Geometry, geometry
from console.widgets.ink import Line
from console.widgets.paper import Paper
from console.widgets.runstrips import Drawn
from console.widgets.spots import Spot


@dataclass(slots=True)
class _Drag:
    """A button that is held down: since which column, and whether it has been moved."""

    column: int
    on_minimap: bool
    moved: bool = False


class Gantt(Paper):
    """Shows the frame that `look` gives; None while there is nothing yet."""

    class Picked(Message):
        """A click: on instant `t` (None: on the labels) of lane `index` (None: on no lane); `twice` in a row."""

        def __init__(self, t: int | None, index: int | None, *, twice: bool) -> None:
            super().__init__()
            self.t = t
            self.index = index
            self.twice = twice

    class Scrubbed(Message):
        """The minimap was pressed or dragged at this instant."""

        def __init__(self, t: int) -> None:
            super().__init__()
            self.t = t

        def can_replace(self, message: Message) -> bool:
            """Only where the mouse is now counts."""
            return isinstance(message, Gantt.Scrubbed)

    class Stretched(Message):
        """A stretch of the chart was dragged over; `done` when the button came up."""

        def __init__(self, stretch: Stretch, *, done: bool) -> None:
            super().__init__()
            self.stretch = stretch
            self.done = done

        def can_replace(self, message: Message) -> bool:
            """Only how far the mouse is now counts, but the last one counts always."""
            return isinstance(message, Gantt.Stretched) and not message.done

    class Turned(Message):
        """The wheel: `steps` down or right (negative: up or left)."""

        def __init__(self, steps: int, *, across: bool = False) -> None:
            super().__init__()
            self.steps = steps
            self.across = across

    class Zoomed(Message):
        """The wheel where it zooms: closer (1) or farther (-1) about this instant."""

        def __init__(self, step: int, t: int) -> None:
            super().__init__()
            self.step = step
            self.t = t

    def __init__(self, look: Callable[[], tuple[Lanes, Frame] | None]) -> None:
        super().__init__(self._picture)
        self._look = look
        self._strips = Drawn()
        self._drag: _Drag | None = None
        self._dragged = False

    def shape(self) -> Geometry | None:
        """How the picture is divided now."""
        looked = self._look()
        if looked is None:
            return None
        lanes, frame = looked
        return geometry(lanes, self.size.width, self.size.height, compact=frame.compact, worker=frame.worker)

    def spots(self) -> list[Spot]:
        """Every lane that is drawn."""
        looked, shape = self._look(), self.shape()
        if looked is None or shape is None:
            return []
        lanes, frame = looked
        shown = frame.lanes_of(lanes)[frame.top : frame.top + shape.rows].tolist()
        pick = (partial(self.post_message, self.Picked(None, index, twice=False)) for index in shown)
        return [Spot(0, shape.strips + row, go) for row, go in enumerate(pick)]

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """On the minimap it scrubs at once; on the chart a drag may follow."""
        shape, self._dragged = self.shape(), False
        if shape is None or event.button != 1 or not 0 <= event.x - shape.gutter < shape.chart:
            return
        self._drag = _Drag(event.x - shape.gutter, shape.is_minimap(event.y))
        self.capture_mouse()
        if self._drag.on_minimap:
            self._scrub(self._drag.column)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """With the button down: scrub, or select."""
        drag, shape = self._drag, self.shape()
        if drag is None or shape is None:
            return
        column = event.x - shape.gutter
        if drag.on_minimap:
            self._scrub(column)
        elif drag.moved or column != drag.column:
            drag.moved = True
            self._stretch(drag, column, done=False)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """The selection is made; a press without a move is left to the click."""
        self.release_mouse()
        drag, self._drag, shape = self._drag, None, self.shape()
        if drag is None or shape is None:
            return
        self._dragged = drag.moved or drag.on_minimap
        if drag.moved:
            self._stretch(drag, event.x - shape.gutter, done=True)

    def on_click(self, event: events.Click) -> None:
        """Seek and select; whatever was a drag is no click."""
        looked, shape = self._look(), self.shape()
        if looked is None or shape is None or self._dragged:
            return
        lanes, frame = looked
        column, row, shown = event.x - shape.gutter, shape.lane_row(event.y), frame.lanes_of(lanes)
        index = int(shown[frame.top + row]) if row is not None and frame.top + row < len(shown) else None
        t = frame.window.instant(column, shape.chart) if 0 <= column < shape.chart else None
        self.post_message(self.Picked(t, index, twice=event.chain == 2))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The next lanes; farther; to the right."""
        self._turn(event, 1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The lanes before; closer; to the left."""
        self._turn(event, -1)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        """Later."""
        event.stop()
        self.post_message(self.Turned(1, across=True))

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        """Earlier."""
        event.stop()
        self.post_message(self.Turned(-1, across=True))

    def _turn(self, event: events.MouseEvent, step: int) -> None:
        """Over the lanes the wheel goes through them, over anything above them (or with ctrl) it zooms."""
        event.stop()
        looked, shape = self._look(), self.shape()
        if looked is None or shape is None:
            return
        if event.shift:
            self.post_message(self.Turned(step, across=True))
        elif event.ctrl or shape.lane_row(event.y) is None:
            column = min(max(event.x - shape.gutter, 0), max(shape.chart - 1, 0))
            self.post_message(self.Zoomed(-step, looked[1].window.instant(column, shape.chart)))
        else:
            self.post_message(self.Turned(step))

    def _scrub(self, column: int) -> None:
        looked, shape = self._look(), self.shape()
        if looked is not None and shape is not None:
            inside = min(max(column, 0), max(shape.chart - 1, 0))
            self.post_message(self.Scrubbed(looked[0].window.instant(inside, shape.chart)))

    def _stretch(self, drag: _Drag, column: int, *, done: bool) -> None:
        looked, shape = self._look(), self.shape()
        if looked is not None and shape is not None:
            stretch = Stretch.of_columns(drag.column, column, looked[1].window, shape.chart)
            self.post_message(self.Stretched(stretch, done=done))

    def _picture(self, width: int, height: int) -> list[Line]:
        looked = self._look()
        return [[("reading the run …", "muted")]] if looked is None else chart(*looked, width, height, self._strips)
