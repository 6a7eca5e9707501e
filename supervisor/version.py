"""
The version of this Covey, also the one in ``pyproject.toml`` (a test compares them).
"""

VERSION = "0.1.0"
