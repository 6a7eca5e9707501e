"""
Whether a failed command's output says that it wanted the network: then the model is told that the network is off.

Without that, models take "could not resolve host" for a passing fault, and try again, and another mirror, for hours.

The patterns are the words of real programs, each with a test that shows whose. A server of the command's own that did
not answer is none of them: plain "connection refused", or a local address, says nothing of the network. A pattern
that matches too much does little harm, because the note is true wherever it is given.
"""

from __future__ import annotations

import re

NOTE = "network is off here; --network opens it"
_SEARCHED_CHARS = 4000
_ELSEWHERE = r"(?!localhost\b|127\.|\[?::1\b|0\.0\.0\.0)"
# No pattern repeats anything without a bound, so a search is linear.
_WORDS = (
    # The C library's words for a name that cannot be resolved, and its numbers' names, as most programs give them on.
    r"[Tt]emporary failure (?:in name resolution|resolving)",
    r"[Nn]ame or service not known",
    r"[Nn]ame does not resolve",
    r"[Nn]o address associated with (?:host)?name",
    r"[Nn]odename nor servname provided",
    r"\bEAI_AGAIN\b|\bENOTFOUND\b",
    r"\bgetaddrinfo(?: \(| failed|: )",
    r"php_network_getaddresses",
    # And for an address that cannot be reached.
    r"[Nn]etwork is unreachable|\bENETUNREACH\b",
    r"[Nn]o route to host|\bEHOSTUNREACH\b",
    # A sandbox in which there are no sockets for it.
    r"\b[Ss]ocket: Operation not permitted",
    r"\bsocket\.__init__\([^\n]{0,80}\n(?:[^\n]{0,80}\n)?PermissionError: \[Errno 1\]",
    rf"\bconnect EPERM {_ELSEWHERE}",
    # Programs with words of their own.
    r"[Cc]ould ?n[o']t resolve (?:host|proxy)|Failed to resolve '",
    rf"Failed to connect to {_ELSEWHERE}\S{{1,255}} port",
    r"unable to resolve host address",
    r"\.\.\. failed: Operation not permitted|^failed: Operation not permitted",
    r"unable to look up ",
    r"Could not resolve '",
    rf"Could not connect to {_ELSEWHERE}\S{{1,255}}:(?:80|443)\b",
    r"\(from versions: none\)",
    r"spurious network error",
    r"failed to lookup address information",
    r"dial tcp: lookup |dial udp [^\n]{1,80}: connect: ",
    r"\bUnknownHostException\b|Unknown host ",
    r"ERR_NAME_NOT_RESOLVED|ERR_INTERNET_DISCONNECTED|ERR_ADDRESS_UNREACHABLE",
    r"IO::Socket::INET\w*: (?:Bad hostname|connect: Operation not permitted)",
)
_WANTED = re.compile("|".join(_WORDS), re.MULTILINE)


def network_note(text: str, *, network: bool) -> str | None:
    """The note for a failed command whose output is *text*, or None; *network*: it is open."""
    if network or _WANTED.search(text[-_SEARCHED_CHARS:]) is None:
        return None
    return NOTE
