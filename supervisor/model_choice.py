"""
Which model a run uses: ``--model P/NAME``, else whichever provider's key is set. Pure over option and environment.

Base URLs and keys come from the SDKs' own variables. A script is read by the caller; here it is only named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ipc.content import MEDIA_TYPES
from ipc.spec import ModelSpec
from supervisor.run_dir import Refused


@dataclass(frozen=True)
class Provider:
    """A provider as the command line knows it, and the module the zygote imports for it."""

    name: str
    key_variable: str
    url_variable: str
    default_model: str
    module: str
    has_kit: bool = True
    """Whether its module has a ``prepare`` that imports a development kit before the first fork."""
    media: tuple[str, ...] = ()
    """The media types its models take in a tool's result; a server that does not know one refuses the whole request."""


PROVIDERS = {
    "anthropic": Provider(
        "anthropic",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "claude-sonnet-4-5",
        "agentproc.model.anthropic",
        media=MEDIA_TYPES,
    ),
    "openai-chat": Provider(
        "openai-chat", "OPENAI_API_KEY", "OPENAI_BASE_URL", "gpt-5.1", "agentproc.model.openai_chat"
    ),
    "openai": Provider(
        "openai",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "gpt-5.1",
        "agentproc.model.openai_responses",
        media=MEDIA_TYPES,
    ),
}
SCRIPTED = Provider("scripted", "", "", "", "agentproc.model.scripted", has_kit=False, media=MEDIA_TYPES)


@dataclass(frozen=True)
class Choice:
    """A provider, a model of it, and where and with which key it is reached."""

    provider: Provider
    model: str
    base_url: str | None
    api_key: str | None


def choose(option: str | None, environment: Mapping[str, str]) -> Choice:
    """
    The model for ``--model`` *option* (None: not given).

    Raises:
        Refused: it names no provider, or a key is missing; the text says which variable to set.
    """
    if option is None:
        option = _default(environment)
    name, _, model = option.partition("/")
    if not model or (name not in PROVIDERS and name != SCRIPTED.name):
        names = ", ".join(f"{known}/NAME" for known in PROVIDERS)
        raise Refused(f"--model {option}: expected {names} or scripted/FILE")
    if name == SCRIPTED.name:
        return Choice(SCRIPTED, model, None, None)
    provider = PROVIDERS[name]
    base_url, key = environment.get(provider.url_variable), environment.get(provider.key_variable)
    if not key and not base_url:
        raise Refused(f"--model {option} needs {provider.key_variable} (or {provider.url_variable} of a local server)")
    return Choice(provider, model, base_url or None, key or None)


def accepted_media(spec: ModelSpec) -> tuple[str, ...]:
    """The media types that tools may return to the model of *spec*."""
    return next((known.media for known in (*PROVIDERS.values(), SCRIPTED) if known.name == spec.provider), ())


def _default(environment: Mapping[str, str]) -> str:
    for provider in PROVIDERS.values():
        if environment.get(provider.key_variable):
            return f"{provider.name}/{provider.default_model}"
    variables = " or ".join(provider.key_variable for provider in PROVIDERS.values())
    raise Refused(f"no model: give --model P/NAME, or set {variables}; `covey demo` needs neither")
