"""The command line as a process: what it prints where, its exit codes, and what it does not load."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from console.cli import COMMANDS, Command, main
from tests.console.runs import golden_rows, write_run

ROOT = Path(__file__).parents[2]
HEADLESS = ("report", "compare", "request", "query", "sweep", "budget")


def tailtrace(*argv: str | Path, script: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own; `script` is Python that runs there before it."""
    code = f"import sys; {script}\nfrom console.cli import main\nsys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, argv)],
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "80"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def loaded(*argv: str | Path) -> set[str]:
    """The top-level modules that are loaded when the command is done."""
    script = "import atexit; atexit.register(lambda: print(*{m.split('.')[0] for m in sys.modules}, file=sys.stderr))"
    return set(tailtrace(*argv, script=script).stderr.splitlines()[-1].split())


def test_help_names_every_command_and_loads_nothing_for_it() -> None:
    result = tailtrace("--help")
    assert result.returncode == 0
    assert all(f"  {command.name} " in result.stdout for command in COMMANDS)
    assert loaded("--help").isdisjoint(
        {"duckdb", "pyarrow", "numpy", "textual", "rich", "msgspec", "torch", "plotext", "aiohttp", "asyncio"}
    )


@pytest.mark.parametrize("name", HEADLESS)
def test_each_command_explains_itself(name: str) -> None:
    result = tailtrace(name, "--help")
    assert result.returncode == 0
    assert f"tailtrace {name}" in result.stdout


def test_reading_a_run_loads_neither_torch_nor_textual_nor_the_engine(golden_run: Path) -> None:
    for argv in (
        ("report", golden_run),
        ("compare", golden_run, golden_run),
        ("request", golden_run, "req-1"),
        ("query", golden_run, "SELECT 1"),
    ):
        modules = loaded(*argv)
        assert "duckdb" in modules
        assert modules.isdisjoint({"torch", "textual", "engine", "aiohttp", "transformers", "tokenizers"})


def test_every_headless_command_exists() -> None:
    assert set(HEADLESS) <= {command.name for command in COMMANDS}
    assert len({command.name for command in COMMANDS}) == len(COMMANDS)


def test_json_goes_to_stdout_alone(golden_run: Path) -> None:
    result = tailtrace("report", golden_run, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["run"] == "golden"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("reprot",), "did you mean report?"),
        (("xyzzy",), "see tailtrace --help"),
        (("report", "/no/such/run"), "no run"),
        (("report",), "required"),
        (("compare", "/no/such/run", "/nor/this"), "no run"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(argv: tuple[str, ...], said: str) -> None:
    result = tailtrace(*argv)
    assert result.returncode == 2
    assert result.stdout == ""
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_no_command_shows_the_help_and_is_bad_input() -> None:
    result = tailtrace()
    assert result.returncode == 2
    assert "commands:" in result.stdout


def test_the_version_is_printed() -> None:
    result = tailtrace("--version")
    assert result.returncode == 0
    assert result.stdout.startswith("tailtrace ")


@pytest.mark.parametrize("when", ["import", "run"])
def test_a_missing_extra_is_named_with_the_way_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], when: str
) -> None:
    """As on a laptop that only reads traces: the engine's dependencies are not there."""
    lacking = "import a_library_nobody_has"
    body = {"import": f"{lacking}\n", "run": f"def configure(parser): pass\ndef run(args):\n    {lacking}\n"}
    (tmp_path / f"lacking_at_{when}.py").write_text(body[when])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("console.cli.COMMANDS", [Command("serve", "serve", f"lacking_at_{when}", "engine")])
    assert main(["serve"]) == 2
    said = capsys.readouterr().err
    assert "a_library_nobody_has" in said
    assert "pip install 'tailtrace[engine]'" in said


def test_a_module_of_our_own_that_is_missing_is_a_defect_and_not_hidden() -> None:
    result = tailtrace("config", "--explain", script="sys.modules['engine.config_command'] = None")
    assert result.returncode == 1
    assert "Traceback" in result.stderr


def test_a_reader_that_goes_away_is_no_error(golden_run: Path) -> None:
    code = "import sys; from console.cli import main; sys.exit(main(sys.argv[1:]))"
    sql = "SELECT range FROM range(300000)"
    command = [sys.executable, "-c", code, "query", str(golden_run), sql, "--format", "csv"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == '"range"\n'
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141
    assert said == ""


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch, golden_run: Path) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("console.commands.report.report", interrupted)
    assert main(["report", str(golden_run)]) == 130


def test_a_terminal_without_the_glyphs_gets_escapes_and_no_crash(golden_run: Path) -> None:
    result = tailtrace("report", golden_run, PYTHONIOENCODING="ascii")
    assert result.returncode == 0
    assert "\\u2020" in result.stdout


def test_colour_is_for_terminals(golden_run: Path) -> None:
    assert "\x1b" not in tailtrace("compare", golden_run, golden_run).stdout


def test_names_in_a_run_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    rows = golden_rows()
    rows["requests"][1]["request_id"] = "\x1b[31m[bold]x"
    run = write_run(tmp_path, rows)
    result = tailtrace("request", run, "req:1")
    assert "·[31m[bold]x" in result.stdout
    assert "\x1b" not in result.stdout
