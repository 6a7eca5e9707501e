"""
``web_fetch URL``: gets a page and prints it as Markdown.

A program of its own because it needs libraries, and because a page is hostile: it is run in the sandbox like a command,
with its own time and memory. The exit code is 0 with the page on stdout, or 1 with the reason why there is none.

Only http and https, nothing of the user's but proxies from the environment. A redirect is followed on the same host
only: the address that was permitted names a host, and another host is another decision.
"""

from __future__ import annotations

import os
import signal
import socket
import ssl
import sys
import zlib
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, quote, urljoin, urlsplit, urlunsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

from toolhost.programs.page import decoded, from_html, kind_of

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from types import FrameType

CONNECT_S = 10
TOTAL_S = 30
MAX_REDIRECTS = 5
MAX_BODY_BYTES = 10 * 1024 * 1024
MAX_ERROR_CHARS = 2000
_PIECE_BYTES = 64 * 1024
_RECURSION_LIMIT = 20_000
_REDIRECTS = (301, 302, 303, 307, 308)
_FIRST_FAILURE = 400
_PORTS = {"http": 80, "https": 443}
# Where distributions keep what OpenSSL's own default names elsewhere.
_CERTIFICATES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_HEADERS = {
    "User-Agent": "Mozilla/5.0 (compatible; Covey)",
    "Accept": "text/html, text/markdown, text/plain;q=0.9, application/json;q=0.9, */*;q=0.1",
    "Accept-Encoding": "gzip, deflate",
}


class Failed(Exception):
    """There is no page to show; the text says why and what to do next."""


class _OutOfTime(BaseException):
    """The whole of it has taken too long; not an Exception, so that no library takes it for a failed address."""


@dataclass(frozen=True)
class Fetched:
    """An answer whose body is whole. *url* is where it came from in the end."""

    url: str
    status: int
    content_type: str
    charset: str | None
    body: bytes


class _NoRedirect(HTTPRedirectHandler):
    """Leaves redirects to :func:`fetch`, which looks where they lead."""

    def redirect_request(self, *_arguments: object, **_named: object) -> None:
        return None


def checked(url: str) -> str:
    """
    *url* as it can be sent: its host in ASCII, its path quoted, without fragment.

    Raises:
        Failed: it is no address that can be fetched.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode("ascii")
    except (ValueError, UnicodeError) as error:
        raise Failed(f"{url!r} is not an address: {error}.") from None
    if parts.scheme not in _PORTS:
        raise Failed(f"{url!r}: only http:// and https:// addresses can be fetched.")
    if not host:
        raise Failed(f"{url!r} names no host.")
    if parts.username is not None or parts.password is not None:
        raise Failed("An address with a user name or password in it is not fetched.")
    place = f"[{host}]" if ":" in host else host
    netloc = place if port is None else f"{place}:{port}"
    safe = "%/:=&?~+!$,;'@()*[]"
    return urlunsplit((parts.scheme, netloc, quote(parts.path or "/", safe), quote(parts.query, safe), ""))


def _place(url: str) -> tuple[str, int]:
    parts: SplitResult = urlsplit(url)
    return (parts.hostname or "").lower(), parts.port or _PORTS[parts.scheme]


def same_host(first: str, second: str) -> bool:
    """Whether two checked addresses lead to the same host and service; http and https are one where both are usual."""
    (host, port), (other_host, other_port) = _place(first), _place(second)
    return host == other_host and (port == other_port or {port, other_port} == set(_PORTS.values()))


def fetch(url: str) -> Fetched:
    """
    What is at *url*, redirects on its host followed.

    Raises:
        Failed: nothing that can be shown.
    """
    opener = _opener()
    url = checked(url)
    for _ in range(MAX_REDIRECTS + 1):
        try:
            answer: HTTPResponse | HTTPError = opener.open(Request(url, headers=_HEADERS), timeout=CONNECT_S)  # noqa: S310 - checked
        except HTTPError as error:
            answer = error
        except (URLError, HTTPException, OSError, ValueError) as error:
            raise Failed(_why(url, error)) from None
        with answer:
            target = answer.headers.get("Location")
            if answer.status not in _REDIRECTS or not target:
                return _received(url, answer)
        following = checked(urljoin(url, target))
        if not same_host(url, following):
            raise Failed(
                f"{url} redirects to another host ({answer.status}): {following} — fetch that address if you want it."
            )
        url = following
    raise Failed(f"{url}: more than {MAX_REDIRECTS} redirects.")


def _opener() -> OpenerDirector:
    """No handlers for files, FTP or data; none that keeps or sends a password."""
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if not any((paths.cafile, paths.capath)):
        found = next((path for path in _CERTIFICATES if os.path.isfile(path)), None)
        if found is not None:
            context.load_verify_locations(found)
    opener = OpenerDirector()
    for handler in (
        ProxyHandler(),
        UnknownHandler(),
        HTTPHandler(),
        HTTPSHandler(context=context),
        _NoRedirect(),
        HTTPDefaultErrorHandler(),
        HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _why(url: str, error: Exception) -> str:
    reason: object = error.reason if isinstance(error, URLError) else error
    host = urlsplit(url).netloc
    if isinstance(reason, TimeoutError):
        return f"{host} did not answer within {CONNECT_S} s."
    if isinstance(reason, socket.gaierror):
        return f"{host}: the name cannot be resolved ({reason.strerror})."
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"{host}: its certificate is not valid ({reason.verify_message})."
    return f"{host}: {getattr(reason, 'strerror', None) or reason or type(reason).__name__}."


def _received(url: str, answer: HTTPResponse | HTTPError) -> Fetched:
    headers, status = answer.headers, answer.status or 0
    announced = headers.get("Content-Length", "")
    content_type = headers.get_content_type() if headers.get("Content-Type") else ""
    if status < _FIRST_FAILURE:
        # Neither is worth its bytes.
        if content_type and kind_of(content_type, b"") is None:
            size = f"{announced} bytes" if announced.isdecimal() else "of unknown size"
            raise Failed(f"{url} is {content_type}, {size}; only text and HTML can be shown. Use a command to get it.")
        if announced.isdecimal() and int(announced) > MAX_BODY_BYTES:
            raise Failed(_too_long(url, announced))
    try:
        body = _body(url, answer, headers.get("Content-Encoding", "").strip().lower())
    except (HTTPException, OSError, zlib.error) as error:
        raise Failed(f"{url}: the page broke off: {str(error) or type(error).__name__}.") from None
    return Fetched(url, status, content_type, headers.get_content_charset(), body)


def _body(url: str, answer: HTTPResponse | HTTPError, encoding: str) -> bytes:
    """The body, decompressed; neither more than the limit is read, nor made of it."""
    match encoding:
        case "" | "identity":
            inflate = None
        case "gzip" | "x-gzip" | "deflate":
            inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
        case _:
            raise Failed(f"{url} is compressed as {encoding!r}, which was not asked for and cannot be read.")
    body, received_bytes = bytearray(), 0
    while piece := answer.read(_PIECE_BYTES):
        received_bytes += len(piece)
        body += piece if inflate is None else inflate.decompress(piece, MAX_BODY_BYTES + 1 - len(body))
        if len(body) > MAX_BODY_BYTES:
            raise Failed(_too_long(url, f"more than {MAX_BODY_BYTES}"))
    announced = answer.headers.get("Content-Length", "")
    # Read in pieces, a body that ends too soon is no error to http.client.
    if announced.isdecimal() and received_bytes < int(announced):
        raise Failed(f"{url}: the page broke off after {received_bytes} of {announced} bytes.")
    return bytes(body)


def _too_long(url: str, size: str) -> str:
    return f"{url} has {size} bytes; the limit is {MAX_BODY_BYTES}. Use a command to get a part of it."


def shown(fetched: Fetched) -> str:
    """
    The text for *fetched*.

    Raises:
        Failed: it is no text, or the server says that it is an error.
    """
    kind = kind_of(fetched.content_type, fetched.body)
    if kind is None and fetched.status < _FIRST_FAILURE:
        raise Failed(
            f"{fetched.url} is not text ({len(fetched.body)} bytes of an unnamed type). Use a command to get it."
        )
    source = decoded(fetched.body, charset=fetched.charset, kind=kind) if kind else ""
    title, text = "", source.strip()
    if kind == "html":
        try:
            page = from_html(source, fetched.url)
        except ImportError as error:
            raise Failed(f"The libraries for HTML are missing ({error.name}): install Covey anew.") from None
        title, text = page.title, page.text
    if fetched.status >= _FIRST_FAILURE:
        start = text[:MAX_ERROR_CHARS] + ("…" if len(text) > MAX_ERROR_CHARS else "")
        raise Failed(f"{fetched.url} answered with status {fetched.status}.\n{start}".rstrip())
    head = f"URL: {fetched.url}\n" + (f"Title: {title}\n" if title else "")
    return f"{head}\n{text or '(the page has no text)'}"


def _strike(_number: int, _frame: FrameType | None) -> None:
    raise _OutOfTime


def main() -> None:
    """Print what is at the address in the first argument; never returns."""
    sys.setrecursionlimit(_RECURSION_LIMIT)
    signal.signal(signal.SIGALRM, _strike)
    signal.alarm(TOTAL_S)
    code = 0
    try:
        fetched = fetch(sys.argv[1])
        signal.alarm(0)
        text = shown(fetched)
    except Failed as failure:
        code, text = 1, str(failure)
    except _OutOfTime:
        code, text = 1, f"{sys.argv[1]} was not there after {TOTAL_S} s."
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.flush()
    sys.exit(code)
