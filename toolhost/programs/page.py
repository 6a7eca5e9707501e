"""
A web page as text for a model: what kind it is, in which encoding, and HTML as Markdown.

Pure. HTML is read by the standard library's parser, which takes anything; what has no text (scripts, styles, pictures
that are part of the address) is dropped, and every link is made absolute, so that it can be fetched as it stands.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urljoin

Kind = Literal["html", "text"]

_HTML_TYPES = ("text/html", "application/xhtml+xml")
_TEXT_TYPES = re.compile(
    r"text/.*|.*\+(json|xml|yaml)"
    r"|application/(json|xml|yaml|x-yaml|toml|javascript|ecmascript|x-javascript|x-ndjson|ld\+json|x-sh|sql|graphql)"
)
_HTML_BEGINS = re.compile(rb"\s*(<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_META_CHARSET = re.compile(rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_META_BYTES = 4096
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Without text, or with text that is none of the page's.
_DROPPED = ("script", "style", "template", "svg", "iframe", "object", "canvas")
_BLANK_LINES = re.compile(r"(?:[ \t]*\n){3,}")


@dataclass(frozen=True)
class Page:
    """What a page says. *title* is empty where it has none."""

    title: str
    text: str


def kind_of(content_type: str, body: bytes) -> Kind | None:
    """How to show *body*, which was sent as *content_type*; None: it is neither text nor HTML."""
    if content_type in _HTML_TYPES:
        return "html"
    if not content_type:
        if _HTML_BEGINS.match(body[:_META_BYTES]):
            return "html"
        return None if b"\0" in body[:_META_BYTES] else "text"
    return "text" if _TEXT_TYPES.fullmatch(content_type) else None


def decoded(body: bytes, *, charset: str | None, kind: Kind) -> str:
    """
    The characters of *body*: by its byte order mark, else the header's *charset*, else its ``<meta>``, else UTF-8.

    What cannot be decoded becomes U+FFFD: a page with one wrong byte is still a page.
    """
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return body.decode(encoding, "replace")
    meta = _META_CHARSET.search(body[:_META_BYTES]) if kind == "html" else None
    for name in (charset, meta and meta[1].decode("ascii")):
        if name and (text := _decoded_as(body, name)) is not None:
            return text
    return body.decode("utf-8", "replace")


def _decoded_as(body: bytes, name: str) -> str | None:
    try:
        return body.decode(name, "replace")
    except (LookupError, ValueError):
        return None


def from_html(html: str, url: str) -> Page:
    """
    The page at *url*, whose source is *html*, as Markdown.

    Raises:
        ImportError: the libraries for it are not there.
    """
    from bs4 import BeautifulSoup, Comment  # noqa: PLC0415 - a text page needs neither
    from markdownify import MarkdownConverter  # noqa: PLC0415 - the same

    soup = BeautifulSoup(html, "html.parser")
    title = " ".join("".join(heading.get_text() for heading in soup.find_all("title", limit=1)).split())
    base = url
    for tag in soup.find_all("base", href=True, limit=1):
        base = _absolute(url, str(tag["href"]))
    for tag in soup.find_all([*_DROPPED, "title"]):
        tag.decompose()
    for comment in soup.find_all(string=lambda text: isinstance(text, Comment)):
        comment.extract()
    for tag in soup.find_all(["a", "img"]):
        name = "href" if tag.name == "a" else "src"
        target = str(tag.get(name) or "").strip()
        if target.lower().startswith(("data:", "javascript:")) or not target:
            del tag[name]
        else:
            tag[name] = _absolute(base, target)
    for image in soup.find_all("img", src=False):
        image.replace_with(str(image.get("alt") or ""))
    try:
        text = MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(soup)
    except RecursionError:
        # Tags nested a thousand deep: without their structure the words are still there.
        text = soup.get_text("\n")
    return Page(title, _BLANK_LINES.sub("\n\n", text).strip())


def _absolute(base: str, target: str) -> str:
    try:
        return urljoin(base, target)
    except ValueError:
        return target
