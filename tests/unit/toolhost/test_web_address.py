"""Which addresses are fetched, and which redirects are followed."""

from __future__ import annotations

import pytest

from toolhost.programs.web_fetch import Failed, checked, same_host


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("http://h", "http://h/"),
        (" https://h:8443/a b?q=ö&r=%20#part ", "https://h:8443/a%20b?q=%C3%B6&r=%20"),
        ("HTTP://H/ü", "http://h/%C3%BC"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://[::1]:80/", "http://[::1]:80/"),
    ],
)
def test_an_address_as_it_is_sent(given, sent):
    assert checked(given) == sent


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("file:///etc/passwd", "only http:// and https://"),
        ("ftp://h/", "only http:// and https://"),
        ("example.com", "only http:// and https://"),
        ("data:text/plain,x", "only http:// and https://"),
        ("http://", "names no host"),
        ("http://user:secret@h/", "a user name or password"),
        ("http://h:port/", "is not an address"),
        ("http://[::1/", "is not an address"),
        ("http://a..b/", "is not an address"),
    ],
)
def test_what_is_not_fetched(given, why):
    with pytest.raises(Failed, match=why):
        checked(given)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("http://h/a", "http://h/b", True),
        ("http://h/", "https://h/", True),
        ("http://h/", "https://H:443/", True),
        ("http://h/", "http://h:8080/", False),
        ("http://h:8080/", "https://h/", False),
        ("http://h/", "http://www.h/", False),
    ],
)
def test_same_host(first, second, same):
    assert same_host(first, second) is same
