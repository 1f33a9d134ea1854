"""Chat templates: Jinja in a sandbox, with the names that Hugging Face's templates expect."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.model.errors import ModelError
from recorder.errors import UserError


class ChatError(UserError):
    """The template refuses these messages (a role out of turn, a missing part); the message is for the client."""


class ChatTemplate:
    """A model's template; `names` are what it may use beside the messages: `bos_token`, `eos_token` and the like.

    Raises `ModelError` for a template that is no Jinja.
    """

    def __init__(self, source: str, names: Mapping[str, str]) -> None:
        self.names = dict(names)
        try:
            self.template = _environment().from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise ModelError(f"the model's chat template is broken in line {error.lineno}: {error.message}") from error

    def render(self, messages: Sequence[Mapping[str, Any]], **options: object) -> str:
        """The prompt up to where the assistant's answer begins. Raises `ChatError` where the template refuses."""
        names = self.names | {"add_generation_prompt": True} | options
        try:
            return self.template.render(messages=list(messages), **names)
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise ChatError(f"the model's chat template refuses these messages: {error}") from error


def _environment() -> jinja2.Environment:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _tojson(value: Any, indent: int | None = None, ensure_ascii: bool = False, sort_keys: bool = False) -> str:  # noqa: ANN401
    # Jinja's own filter escapes HTML, which no model was trained on.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    # Templates write the date of the day where the user is.
    return datetime.now().astimezone().strftime(form)
