"""Estimates beside a real tokenizer, and beside what a provider counts."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path

import pytest
from bpe_openai import get_encoding

from agentproc.tokens import FIRST_FACTOR, Meter, text_tokens
from agentproc.transcript import Prefix
from tools.register import ROOT

BYTES = bytes(range(256)) * 60
SAMPLES = {
    "prose": Path(ROOT, "docs", "architecture.md").read_text(),
    "code": Path(ROOT, "supervisor", "gate.py").read_text(),
    "json": json.dumps([{"id": n, "name": f"user{n}", "mail": f"u{n}@example.com"} for n in range(500)]),
    "hex": BYTES.hex(),
    "digits": "".join(str(n * n) for n in range(3_000)),
    "base64": base64.b64encode(BYTES).decode(),
    "chinese": "这是一个测试文本用于检查标记数量的估计。" * 200,
    "russian": "Это проверка того, как считаются токены в русском тексте. " * 200,
    "emoji": "😀🚀🎉🔥🧵🪲" * 400,
    "rare": "".join(map(chr, range(0x20000, 0x20800))),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_an_estimate_is_hardly_ever_short(name: str) -> None:
    counted = len(get_encoding("o200k_base").encode_ordinary(SAMPLES[name]))
    assert 0.8 * counted <= text_tokens(SAMPLES[name]) <= 3 * counted


def test_what_a_provider_counted_corrects_it() -> None:
    meter, prefix = Meter(), Prefix(system="word " * 1_000, tools=(), hash="p")
    raw = meter.raw(prefix, ())
    assert meter.tokens(prefix, ()) == math.ceil(raw * FIRST_FACTOR)
    meter.observe(raw, 2 * raw)
    assert meter.tokens(prefix, ()) == pytest.approx(raw * 2 * 1.02, abs=1)
    for _ in range(4):
        meter.observe(raw, raw // 2)
    assert meter.tokens(prefix, ()) == pytest.approx(raw * 0.51, abs=1)


def test_a_refusal_counts_until_something_was_counted() -> None:
    meter, prefix = Meter(), Prefix(system="word " * 1_000, tools=(), hash="p")
    raw = meter.raw(prefix, ())
    meter.refused(raw, 3 * raw)
    assert meter.tokens(prefix, ()) == 3 * raw
    meter.observe(raw, raw)
    assert meter.tokens(prefix, ()) == pytest.approx(raw * 1.02, abs=1)
