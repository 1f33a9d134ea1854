"""The one table of screens: its number key, its name, its title, and the class that shows it. Knows no widget."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Place:
    """A screen to turn to. `shown_by` is `module:class`, imported when somebody goes there for the first time."""

    key: str
    name: str
    title: str
    help: str
    shown_by: str


SCREENS: Final = (
    Place("1", "overview", "Overview", "percentiles, phases, causes, health", "overview:OverviewScreen"),
    Place("2", "timeline", "Timeline", "every request over the worker's passes", "timeline:TimelineScreen"),
    Place("3", "request", "Request", "causes, token gaps, passes, attempts", "life:RequestScreen"),
    Place("4", "budget", "Budget", "where time goes, and who takes the tail", "budget:BudgetScreen"),
    Place("5", "contrast", "Contrast", "what sets slow requests apart", "contrast:ContrastScreen"),
    Place("6", "compare", "Compare", "two to four runs, request by request", "compare:CompareScreen"),
    Place("7", "engine", "Engine", "what the workers did, and its health", "engine:EngineScreen"),
    Place("8", "sql", "SQL", "ask the run, and filter by the answer", "sql:SqlScreen"),
    Place("9", "explain", "Explain", "what makes the tail, ranked, and why", "explain:ExplainScreen"),
)

NAMES: Final = tuple(place.name for place in SCREENS)
