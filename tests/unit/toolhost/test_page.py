"""A page becomes text: its kind, its encoding, its Markdown."""

from __future__ import annotations

import pytest

from toolhost.programs.page import Page, decoded, from_html, kind_of


@pytest.mark.parametrize(
    ("content_type", "body", "kind"),
    [
        ("text/html", b"", "html"),
        ("application/xhtml+xml", b"", "html"),
        ("text/plain", b"\0", "text"),
        ("text/markdown", b"", "text"),
        ("application/json", b"", "text"),
        ("application/vnd.github+json", b"", "text"),
        ("image/svg+xml", b"", "text"),
        ("application/zip", b"", None),
        ("image/png", b"", None),
        ("", b" <!-- x -->\n<!DOCTYPE html><p>", "html"),
        ("", b"plain words", "text"),
        ("", b"\x7fELF\0\0", None),
    ],
)
def test_kinds(content_type, body, kind):
    assert kind_of(content_type, body) == kind


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        ("größer".encode(), None, "größer"),
        ("größer".encode("latin-1"), "iso-8859-1", "größer"),
        (b"<meta charset='iso-8859-1'>" + "größer".encode("latin-1"), None, "<meta charset='iso-8859-1'>größer"),
        (b"<meta charset='koi8-r'>" + "größer".encode(), "utf-8", "<meta charset='koi8-r'>größer"),
        ("größer".encode("utf-8-sig"), "iso-8859-1", "größer"),
        ("größer".encode("utf-16"), None, "größer"),
        ("größer".encode(), "no-such-charset", "größer"),
        ("größer".encode(), "zip", "größer"),
        (b"a\xffb", None, "a\ufffdb"),
    ],
)
def test_the_encoding_is_the_marks_then_the_headers_then_the_pages(body, charset, text):
    assert decoded(body, charset=charset, kind="html") == text


def test_a_meta_tag_means_nothing_outside_html():
    body = b"<meta charset='iso-8859-1'>" + "ö".encode()
    assert decoded(body, charset=None, kind="text") == "<meta charset='iso-8859-1'>ö"


def test_html_becomes_markdown_with_absolute_links():
    html = """<html><head><title> Of  owls </title><style>p{}</style><script>alert(1)</script></head><body>
    <h1>Owls</h1><!-- none of this --><p>See <a href="../more?x=1#y">more</a> and <a href="javascript:x()">this</a>.
    <img src="owl.png" alt="an owl"> <img src="data:image/png;base64,AAAA" alt="a dot"></p>
    <pre><code>a = 1\n  b</code></pre><ul><li>one</li><li>two</li></ul>
    <table><tr><th>a</th></tr><tr><td>1</td></tr></table></body></html>"""
    assert from_html(html, "http://host/dir/page") == Page(
        "Of owls",
        "# Owls\n\nSee [more](http://host/more?x=1#y) and this.\n![an owl](http://host/dir/owl.png) a dot\n\n"
        "```\na = 1\n  b\n```\n\n- one\n- two\n\n| a |\n| --- |\n| 1 |",
    )


def test_links_are_relative_to_the_base_that_the_page_names():
    assert from_html("<base href='/b/'><a href='c'>x</a>", "http://h/a").text == "[x](http://h/b/c)"


def test_tags_without_end_lose_their_structure_and_keep_their_words():
    assert from_html("<b><i>" * 2000 + "deep", "http://h/").text == "deep"
