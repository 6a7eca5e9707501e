"""WebFetch as a real program of a real toolhost, against a web server on this machine."""

from __future__ import annotations

import gzip
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from supervisor.open_network import library_directories

from .covey import Place, step
from .toolhost_client import CODE_DIR, Answer, Client, toolhost

MIB = 1024 * 1024


@dataclass(frozen=True)
class Answering:
    """What the server does with one path; a *length* that is not the body's is announced all the same."""

    body: bytes = b""
    kind: str = "text/plain"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None
    silent: bool = False


PAGES = {
    "/page": Answering(b"<title>Owls</title><h1>Owls</h1><a href='x'>more</a>", "text/html"),
    "/latin": Answering("<p>größer".encode("latin-1"), "text/html; charset=iso-8859-1"),
    "/text": Answering("größer 🦉".encode(), "text/plain; charset=utf-8"),
    "/json": Answering(b'{"a": 1}', "application/json"),
    "/empty": Answering(b"", "text/html"),
    "/escape": Answering(b"a\x1b]0;title\x07b"),
    "/moved": Answering(status=302, headers={"Location": "/text"}),
    "/loop": Answering(status=302, headers={"Location": "/loop"}),
    "/gone": Answering(b"<h1>Gone</h1>" + b"x" * 5000, "text/html", status=404),
    "/zip": Answering(b"PK\3\4", "application/zip"),
    "/packed": Answering(gzip.compress(b"words"), headers={"Content-Encoding": "gzip"}),
    "/bomb": Answering(gzip.compress(b"\n" * (11 * MIB)), headers={"Content-Encoding": "gzip"}),
    "/strange": Answering(b"words", headers={"Content-Encoding": "br"}),
    "/long": Answering(b"x", length=10 * MIB + 1),
    "/longer": Answering(b"x" * (10 * MIB + 1), length=-1),
    "/short": Answering(b"half", length=8),
    "/silent": Answering(silent=True),
}


class _Web(BaseHTTPRequestHandler):
    server: WebServer

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        page = PAGES.get(self.path)
        if self.path == "/elsewhere":
            page = Answering(status=301, headers={"Location": f"http://localhost:{self.server.server_port}/text"})
        if page is None:
            page = Answering(b"not here", status=404)
        if page.silent:
            self.server.ending.wait()
            return
        self.send_response(page.status)
        length = len(page.body) if page.length is None else page.length
        headers = {"Content-Type": page.kind, **page.headers, **({"Content-Length": length} if length >= 0 else {})}
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(page.body)

    def log_message(self, *_arguments: object) -> None:
        pass


class WebServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Web)
        self.asked: list[str] = []
        self.ending = threading.Event()

    def handle_error(self, *_arguments: object) -> None:
        """A client that has seen enough is no event worth a traceback."""

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"


@contextmanager
def serving() -> Iterator[WebServer]:
    with WebServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.ending.set()
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def web() -> Iterator[WebServer]:
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with toolhost("process", network=True) as client:
        yield client


def fetched(client: Client, url: str) -> tuple[str, str]:
    answer: Answer = client.call("WebFetch", url=url)
    return answer.result.status, answer.text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/page", "URL: {url}\nTitle: Owls\n\n# Owls\n\n[more]({root}/x)"),
        ("/latin", "URL: {url}\n\ngrößer"),
        ("/text", "URL: {url}\n\ngrößer 🦉"),
        ("/json", 'URL: {url}\n\n{{"a": 1}}'),
        ("/empty", "URL: {url}\n\n(the page has no text)"),
        ("/escape", "URL: {url}\n\nab"),
        ("/packed", "URL: {url}\n\nwords"),
        ("/moved", "URL: {root}/text\n\ngrößer 🦉"),
    ],
)
def test_what_is_shown(client: Client, web: WebServer, path: str, text: str):
    assert fetched(client, web.url(path)) == ("ok", text.format(url=web.url(path), root=web.url("")))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/gone", "{url} answered with status 404.\n# Gone\n\n" + "x" * 1992 + "…"),
        ("/zip", "{url} is application/zip, 4 bytes; only text and HTML can be shown. Use a command to get it."),
        ("/loop", "{url}: more than 5 redirects."),
        ("/bomb", "{url} has more than 10485760 bytes; the limit is 10485760. Use a command to get a part of it."),
        ("/long", "{url} has 10485761 bytes; the limit is 10485760. Use a command to get a part of it."),
        ("/longer", "{url} has more than 10485760 bytes; the limit is 10485760. Use a command to get a part of it."),
        ("/strange", "{url} is compressed as 'br', which was not asked for and cannot be read."),
        ("/short", "{url}: the page broke off after 4 of 8 bytes."),
    ],
)
def test_what_is_not_shown_says_why(client: Client, web: WebServer, path: str, text: str):
    assert fetched(client, web.url(path)) == ("error", text.format(url=web.url(path)))


def test_a_redirect_to_another_host_is_named_and_not_followed(client: Client, web: WebServer):
    before = len(web.asked)
    target = f"http://localhost:{web.server_port}/text"

    assert fetched(client, web.url("/elsewhere")) == (
        "error",
        f"{web.url('/elsewhere')} redirects to another host (301): {target} — fetch that address if you want it.",
    )
    assert web.asked[before:] == ["/elsewhere"]
    assert fetched(client, target)[0] == "ok"  # the same address, asked for by name


def test_nobody_at_the_address_is_said(client: Client):
    with WebServer() as nobody:
        port = nobody.server_port
    assert fetched(client, f"http://127.0.0.1:{port}/") == ("error", f"127.0.0.1:{port}: Connection refused.")


def test_a_local_file_is_no_page(client: Client):
    assert fetched(client, "file:///etc/passwd") == (
        "error",
        "'file:///etc/passwd': only http:// and https:// addresses can be fetched.",
    )


def test_a_proxy_of_the_environment_is_asked():
    with serving() as proxy:
        environment = {"PATH": "/usr/bin:/bin", "http_proxy": proxy.url("")}
        with toolhost("process", network=True, env=environment) as client:
            status, _ = fetched(client, "http://covey.invalid/x")
        assert (status, proxy.asked) == ("error", ["http://covey.invalid/x"])


@pytest.mark.parametrize(
    ("limit", "text"),
    [("CONNECT_S", "127.0.0.1:{port} did not answer within 1 s."), ("TOTAL_S", "{url} was not there after 1 s.")],
)
def test_a_server_that_says_nothing_is_given_up(web: WebServer, limit: str, text: str):
    program = (
        f"import sys; sys.path.insert(0, {CODE_DIR!r}); sys.path += {list(library_directories())!r}; "
        f"from toolhost.programs import web_fetch; web_fetch.{limit} = 1; web_fetch.main()"
    )
    url = web.url("/silent")
    argv = [sys.executable, "-I", "-S", "-c", program, url]

    done = subprocess.run(argv, capture_output=True, text=True, timeout=8, check=False)

    assert (done.returncode, done.stdout) == (1, text.format(url=url, port=web.server_port))


@pytest.mark.parametrize("sandbox", ["require", "off"])
def test_a_run_with_the_network_open_shows_its_agents_a_page(place: Place, web: WebServer, sandbox: str):
    script = place.script(
        {"steps": [step("", ("WebFetch", {"url": web.url("/page")})), step("It said {{last_tool_result}}")]}
    )
    options = ("--network", "--sandbox", sandbox, "--allow", "WebFetch", "--output-format", "json", "--model", script)

    finished = place.run("run", "look", *options)

    assert finished.result["result"] == (
        f"It said URL: {web.url('/page')}\nTitle: Owls\n\n# Owls\n\n[more]({web.url('')}/x)"
    )


@pytest.mark.parametrize(("options", "offered"), [((), False), (("--network",), True)])
def test_the_tool_is_offered_only_when_the_network_is_open(place: Place, options: tuple[str, ...], offered: bool):
    script = place.script({"steps": [step("done")]})

    finished = place.run("run", "look", "--output-format", "stream-json", "--model", script, *options)

    assert ("WebFetch" in finished.frames[0]["tools"]) is offered


def test_a_tool_that_needs_the_network_is_not_named_without_it(place: Place):
    script = place.script({"steps": [step("done")]})

    finished = place.run("run", "look", "--tools", "WebFetch", "--model", script)

    assert finished.code == 2
    assert "--tools: WebFetch needs the network, which only --network opens" in finished.err
