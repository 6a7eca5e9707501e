"""
What a model costs, from the offline data of genai-prices; imported only where a budget in dollars was given.

Amounts are whole numbers of 10⁻⁹ dollars. A bound is priced at the dearest that may come up: all of the input written
to the provider's cache, in the tier that the size of the request falls into.
"""

from __future__ import annotations

import math
from decimal import Decimal

from genai_prices import Usage as PricedUsage
from genai_prices import data_snapshot

from ipc.content import Usage
from supervisor.permits import Price

_PROVIDERS = {"anthropic": "anthropic", "openai": "openai", "openai-chat": "openai"}
_NANO = 1_000_000_000
_LARGE_REQUEST_TOKENS = 250_000
_PROBE_TOKENS = 1_000


class NoPrice(Exception):
    """Nothing is known of what this model costs."""


class Prices:
    """The prices of one model of one provider."""

    def __init__(self, provider: str, model: str) -> None:
        try:
            self._provider, self._model = data_snapshot.get_snapshot().find_provider_model(
                model, None, _PROVIDERS[provider], None
            )
        except LookupError as error:
            raise NoPrice(f"{provider}/{model}") from error

    def bound(self, window_tokens: int) -> Price:
        """The price of a token at most, in requests of up to *window_tokens*."""
        sizes = {_PROBE_TOKENS, min(window_tokens, _LARGE_REQUEST_TOKENS), window_tokens}
        dearest = max(self._input_price(size, written=written) for size in sizes for written in (True, False))
        return Price(dearest, max(self._output_price(size) for size in sizes))

    def _input_price(self, size: int, *, written: bool) -> int:
        usage = PricedUsage(input_tokens=size, cache_write_tokens=size if written else 0)
        return math.ceil(self._total(usage) * _NANO / size)

    def _output_price(self, size: int) -> int:
        total = self._total(PricedUsage(input_tokens=size, output_tokens=_PROBE_TOKENS))
        return math.ceil((total - self._total(PricedUsage(input_tokens=size))) * _NANO / _PROBE_TOKENS)

    def cost(self, usage: Usage) -> int:
        """What *usage* costs."""
        priced = PricedUsage(
            input_tokens=usage.input_side_tokens,
            cache_read_tokens=usage.cache_read_input_tokens,
            cache_write_tokens=usage.cache_creation_input_tokens,
            output_tokens=usage.output_tokens,
        )
        return math.ceil(self._total(priced) * _NANO)

    def _total(self, usage: PricedUsage) -> Decimal:
        return self._model.calc_price(usage, self._provider).total_price
