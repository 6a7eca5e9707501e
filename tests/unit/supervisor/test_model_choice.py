"""Which media a model's tools may return, told without its kit."""

from __future__ import annotations

import pytest

from ipc.spec import ModelSpec
from supervisor.model_choice import accepted_media

ALL = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")


@pytest.mark.parametrize(
    ("provider", "media"), [("anthropic", ALL), ("scripted", ALL), ("openai-chat", ()), ("another", ())]
)
def test_only_where_it_is_known_that_a_model_takes_them(provider: str, media: tuple[str, ...]):
    assert accepted_media(ModelSpec(provider=provider, name="m")) == media
