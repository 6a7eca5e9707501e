"""Lines for people."""


def line(name: str, price_cents: int) -> str:
    """One line of a receipt: name and price in euros."""
    return f"{name}: {price_cents / 100} EUR"
