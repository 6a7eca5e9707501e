"""What is on the shelves."""


def enough(stock: dict[str, int], name: str, wanted: int) -> bool:
    """Whether *wanted* pieces of *name* are in stock."""
    return stock[name] > wanted
