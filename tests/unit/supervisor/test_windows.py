"""What is known of models' windows."""

from __future__ import annotations

import pytest
from genai_prices import data_snapshot

from supervisor.windows import SCRIPTED_WINDOW, UNKNOWN_WINDOW, window_of


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "claude-sonnet-4-5"),
        ("anthropic", "claude-opus-4-1"),
        ("anthropic", "claude-haiku-4-5"),
        ("anthropic", "claude-3-haiku-20240307"),
        ("openai", "gpt-5.1"),
        ("openai", "gpt-5-mini"),
        ("openai", "gpt-4o"),
        ("openai", "gpt-4o-mini"),
        ("openai", "gpt-4.1"),
        ("openai", "o3"),
        ("openai", "o4-mini"),
        ("openai", "gpt-4"),
        ("openai", "gpt-3.5-turbo"),
    ],
)
def test_no_window_is_taken_for_larger_than_it_is(provider: str, model: str) -> None:
    _, info = data_snapshot.get_snapshot().find_provider_model(model, None, provider, None)
    window, max_output = window_of(provider, model, None)
    assert info.context_window is None or window <= info.context_window
    assert max_output <= window // 4


def test_what_is_not_known_and_what_is_said() -> None:
    assert window_of("openai-chat", "qwen3-coder", None) == (UNKNOWN_WINDOW, 16_384)
    assert window_of("openai-chat", "qwen3-coder", 32_768) == (32_768, 8_192)
    assert window_of("openai-chat", "openai/gpt-4o", None) == (128_000, 16_384)
    assert window_of("scripted", "gpt-4", None) == (SCRIPTED_WINDOW, 16_384)
