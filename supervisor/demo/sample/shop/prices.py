"""Prices in cents."""


def discounted(price_cents: int, percent: int) -> int:
    """The price after a discount of *percent*."""
    return price_cents - percent
