"""The shape of the project, held by tests: top level, file sizes, function sizes, first lines."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("console", "engine", "recorder")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TOP_LEVEL = {"pyproject.toml", "README.md", "LICENSE", "console", "engine", "recorder", "tests", "traces"}


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_the_top_level_holds_what_the_layout_names() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    names = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert {name for name in names if not name.startswith(".")} <= TOP_LEVEL


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_says_first_what_belongs_in_it_and_stays_small(path: Path) -> None:
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text)), "no docstring on the first line"
    assert text.count("\n") <= 500
    assert [node.name for node in _functions(path) if _length(node) > 80] == []


def test_hardly_any_function_is_long() -> None:
    lengths = sorted(_length(node) for path in SOURCES for node in _functions(path))
    long = sum(length > 35 for length in lengths)
    assert long <= 0.1 * len(lengths)
    assert lengths[len(lengths) // 2] <= 12
