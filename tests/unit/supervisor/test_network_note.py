"""A program that wanted the network says so in words of its own; each of these was said by the program named."""

from __future__ import annotations

import time

import pytest

from supervisor.network_note import NOTE, network_note

# Those marked with * were recorded in Covey's own sandbox, the others come from the program's sources or its users.
MESSAGES = {
    "curl, name *": "curl: (6) Could not resolve host: example.com",
    "curl, address *": "curl: (7) Failed to connect to 93.184.216.34 port 80 after 0 ms: Couldn't connect to server",
    "curl, proxy": "curl: (5) Could not resolve proxy: proxy.corp",
    "wget, name *": "wget: unable to resolve host address 'example.com'",
    "wget, address *": "failed: Operation not permitted.\nfailed: Operation not permitted.",
    "wget, address, at length": "Connecting to 93.184.216.34:80... failed: Network is unreachable.",
    "pip, retries *": (
        "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError('<pip._vendor."
        "urllib3.connection.HTTPSConnection object>: Failed to establish a new connection: [Errno -2] Name or service "
        "not known')': /simple/six/"
    ),
    "pip, the last words *": "ERROR: Could not find a version that satisfies the requirement six (from versions: none)",
    "pip 25": "Failed to resolve 'pypi.org' ([Errno -3] Temporary failure in name resolution)",
    "npm *": "npm error code EAI_AGAIN\nnpm error syscall getaddrinfo",
    "npm, no such name": "npm ERR! request to https://r.example/x failed, reason: getaddrinfo ENOTFOUND r.example",
    "node, fetch *": "TypeError: fetch failed\n  [cause]: Error: getaddrinfo EAI_AGAIN example.com",
    "node, address *": "Error: connect EPERM 93.184.216.34:80 - Local (undefined:undefined)",
    "node, unreachable": "Error: connect ENETUNREACH 93.184.216.34:80 - Local (0.0.0.0:0)",
    "git, https *": "fatal: unable to access 'https://github.com/a/b/': Could not resolve host: github.com",
    "git, https, address *": (
        "fatal: unable to access 'http://93.184.216.34/a/': Failed to connect to 93.184.216.34 port 80 after 0 ms: "
        "Couldn't connect to server"
    ),
    "git, ssh *": "ssh: Could not resolve hostname github.com: Temporary failure in name resolution",
    "git, its own protocol *": "fatal: unable to look up github.com (port 9418) (Temporary failure in name resolution)",
    "python, urllib *": "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>",
    "python, socket *": (
        "    _socket.socket.__init__(self, family, type, proto, fileno)\n"
        "PermissionError: [Errno 1] Operation not permitted"
    ),
    "python, unreachable": "OSError: [Errno 101] Network is unreachable",
    "python, no route": "OSError: [Errno 113] No route to host",
    "apt-get": "Err:1 http://deb.debian.org/debian stable InRelease\n  Temporary failure resolving 'deb.debian.org'",
    "apt-get, proxy": "W: Failed to fetch http://deb.debian.org/x  Could not resolve 'deb.debian.org'",
    "apt-get, address": "E: Could not connect to deb.debian.org:80 (151.101.2.132), connection timed out",
    "cargo *": "warning: spurious network error (3 tries remaining): [6] Could not resolve hostname",
    "uv": "error: dns error: failed to lookup address information: Try again",
    "bash *": "bash: socket: Operation not permitted\nbash: line 1: /dev/tcp/93.184.216.34/80: Operation not permitted",
    "bash, name *": "bash: line 1: example.com: Temporary failure in name resolution",
    "perl *": "IO::Socket::INET: Bad hostname 'example.com:80' Invalid argument at -e line 1.",
    "go": 'go: example.com/x: Get "https://proxy.golang.org/": dial tcp: lookup proxy.golang.org: no such host',
    "go, its resolver": "dial udp 127.0.0.53:53: connect: network is unreachable",
    "java": "java.net.UnknownHostException: repo.maven.apache.org",
    "maven": "Unknown host repo.maven.apache.org: Temporary failure",
    "ruby": "Failed to open TCP connection to rubygems.org:443 (getaddrinfo: Temporary failure)",
    "ruby 3.4": "Failed to open TCP connection to rubygems.org:443 (getaddrinfo(3): x) getaddrinfo failed",
    "php": "php_network_getaddresses: getaddrinfo for packagist.org failed",
    "musl": "ping: bad address 'example.com': Name does not resolve",
    "mac": "nodename nor servname provided, or not known",
    "glibc, no address": "No address associated with hostname",
    "playwright": "page.goto: net::ERR_NAME_NOT_RESOLVED at https://example.com/",
    "a node in yarn": "An unexpected error occurred: EHOSTUNREACH",
}

OTHERS = {
    "a server that is not there": "curl: (7) Failed to connect to localhost port 8000 after 0 ms: Connection refused",
    "by number": "curl: (7) Failed to connect to 127.0.0.1 port 9 after 0 ms: Couldn't connect to server",
    "by the new number": "curl: (7) Failed to connect to ::1 port 9 after 0 ms: Couldn't connect to server",
    "node": "Error: connect ECONNREFUSED 127.0.0.1:5432",
    "python": "ConnectionRefusedError: [Errno 111] Connection refused",
    "psql": 'connection to server at "localhost" (127.0.0.1), port 5432 failed: Connection refused',
    "a right": "PermissionError: [Errno 1] Operation not permitted: '/etc/passwd'",
    "chown": "chown: changing ownership of 'x': Operation not permitted",
    "a test": "E   AssertionError: assert 'unreachable' == 'reachable'",
    "an import": "ModuleNotFoundError: No module named 'requests'",
    "nothing": "",
}


@pytest.mark.parametrize("text", MESSAGES.values(), ids=MESSAGES.keys())
def test_a_program_that_wanted_the_network_is_told_that_it_is_off(text):
    assert network_note(f"some output\n{text}\nmore of it\n", network=False) == NOTE
    assert network_note(text, network=True) is None


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS.keys())
def test_other_failures_are_not_laid_to_the_network(text):
    assert network_note(text, network=False) is None


def test_only_the_end_of_the_output_is_searched():
    said = "curl: (6) Could not resolve host: example.com\n"

    assert network_note(said + "x" * 3900, network=False) == NOTE
    assert network_note(said + "x" * 4000, network=False) is None


@pytest.mark.parametrize(
    "piece", ["_socket.socket.__init__(", "dial udp ", "Failed to connect to ", "getaddrinfo", "\n"]
)
def test_no_output_takes_long_to_search(piece):
    text = piece * 1_000_000
    began_s = time.perf_counter()

    network_note(text, network=False)

    assert time.perf_counter() - began_s < 0.1
