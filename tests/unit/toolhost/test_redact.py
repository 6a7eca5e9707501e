from __future__ import annotations

import base64
import json
import re
import time
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolhost.redact import RedactingStream, Redactor

SECRET = 'sk-ü/abc+DEF "quoted"=1234567890'
REDACTOR = Redactor({"KEY": SECRET})


def test_a_value_is_replaced_by_its_name():
    assert REDACTOR.redact(f"key={SECRET};") == "key=[redacted:KEY];"


def test_other_text_is_unchanged():
    text = "sk-ü/abc ${KEY:-} and KEY=\n"
    assert REDACTOR.redact(text) == text


@pytest.mark.parametrize(
    "form",
    [
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        quote(SECRET, safe=""),
        quote(SECRET),
        quote_plus(SECRET),
        re.sub(r"%..", lambda found: found[0].lower(), quote(SECRET, safe="")),
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        json.dumps(SECRET)[1:-1].replace("/", "\\/"),
        json.dumps(json.dumps(SECRET)[1:-1])[1:-1],
        json.dumps(json.dumps(SECRET, ensure_ascii=False)[1:-1], ensure_ascii=False)[1:-1],
    ],
)
def test_encoded_forms(form):
    assert REDACTOR.redact(f"<{form}>") == "<[redacted:KEY]>"


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("before", [b"", b"a", b"ab", b"abc"])
@pytest.mark.parametrize("after", [b"", b"z", b"zy"])
def test_base64_at_every_alignment_leaves_at_most_the_edge_characters(encode, before, after):
    shown = REDACTOR.redact(encode(before + SECRET.encode() + after).decode())

    left, mark, right = shown.partition("[redacted:KEY]")
    assert mark == "[redacted:KEY]"
    # What stands at the edges also holds bits of the text around the value.
    assert (len(left) <= len(before) * 2 + 1, len(right) <= len(after) * 2 + 4) == (True, True)


JS = "sk-(a&b)'c'<d>*e!/f?g=h;i,j"


@pytest.mark.parametrize(
    "form",
    [
        "sk-(a%26b)'c'%3Cd%3E*e!%2Ff%3Fg%3Dh%3Bi%2Cj",  # encodeURIComponent
        "sk-(a&b)'c'%3Cd%3E*e!/f?g=h;i,j",  # encodeURI
        "sk-(a\\u0026b)'c'\\u003cd\\u003e*e!/f?g=h;i,j",  # Go's encoding/json
    ],
)
def test_what_other_languages_escape_otherwise(form):
    assert Redactor({"KEY": JS}).redact(f"<{form}>") == "<[redacted:KEY]>"


LONG_SECRET = "canary-" + "0123456789abcdefghijklmnopqrstuvwxyz" * 4


def folded(text: str, columns: int) -> str:
    return "\n".join(text[at : at + columns] for at in range(0, len(text), columns))


@pytest.mark.parametrize("columns", [32, 60, 64, 76])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, lambda raw: raw.hex().encode()])
@pytest.mark.parametrize("secret", [SECRET, LONG_SECRET], ids=["short", "long"])
def test_base64_and_hex_are_found_across_line_ends(secret, encode, columns):
    redactor = Redactor({"KEY": secret})
    for before in range(0, 80, 7):
        text = folded(encode(b"\x07" * before + secret.encode() + b"after it").decode(), columns)
        stream = RedactingStream(redactor)
        pieces = [*(stream.feed(text[at : at + 50]) for at in range(0, len(text), 50)), stream.finish()]
        shown = redactor.redact(text)
        assert ("".join(pieces), shown.count("[redacted:KEY]")) == (shown, 1)
        left = shown.replace("\n", "").replace("[redacted:KEY]", "")
        # Two characters of base64 and one line end at either edge may be of the value's neighbours.
        assert len(left) <= len(text.replace("\n", "")) - len(encode(secret.encode()).decode().rstrip("=")) + 5


def test_a_value_in_pieces_all_over_a_text_is_none():
    """Each character on a line of its own is no folding, and would make an occurrence of any size."""
    text = folded(SECRET.encode().hex(), 2)
    assert REDACTOR.redact(text) == text


def test_a_short_value_is_left_alone_because_it_is_not_a_secret():
    assert Redactor({"SHORT": "1234567"}).redact("1234567") == "1234567"


def test_eight_characters_are_enough():
    assert Redactor({"K": "12345678"}).redact("a12345678b") == "a[redacted:K]b"


def test_a_trailing_newline_is_not_part_of_a_value():
    assert Redactor({"K": "topsecret-value\n"}).redact("topsecret-value") == "[redacted:K]"


def test_long_lines_of_a_value_are_found_on_their_own():
    pem = "-----BEGIN KEY-----\nMIIEowIBAAKCAQEA0\nxyz+abcdefghijklmnop\n-----END KEY-----\n"
    numbered = "     1\t-----BEGIN KEY-----\n     2\tMIIEowIBAAKCAQEA0\n     3\txyz+abcdefghijklmnop\n"
    assert Redactor({"PEM": pem}).redact(numbered) == (
        "     1\t-----BEGIN KEY-----\n     2\t[redacted:PEM]\n     3\t[redacted:PEM]\n"
    )


def test_overlapping_values_become_one_replacement():
    both = Redactor({"ONE": "abcdefgh", "TWO": "efghijkl"})
    assert both.redact("-abcdefghijkl-") == "-[redacted:ONE]-"


def test_a_value_that_overlaps_itself_leaves_no_end_standing():
    assert Redactor({"K": "abababab"}).redact("-abababababab-") == "-[redacted:K]-"


def test_the_longest_form_is_found_one_character_at_a_time():
    redactor = Redactor({"K": "abcdefghijklmnop"})
    text = f"{b'abcdefghijklmnop'.hex()[:5]}\n{b'abcdefghijklmnop'.hex()[5:20]}\n{b'abcdefghijklmnop'.hex()[20:]}"
    assert len(text) == redactor.longest_chars
    stream = RedactingStream(redactor)
    assert "".join([*map(stream.feed, text), stream.finish()]) == "[redacted:K]"


def test_a_value_inside_another_is_covered_by_the_longer():
    both = Redactor({"INNER": "password1", "OUTER": "user:password1@host"})
    assert both.redact("user:password1@host password1") == "[redacted:OUTER] [redacted:INNER]"


def test_json_is_redacted_in_keys_and_values_and_keeps_its_shape():
    assert REDACTOR.redact_json({"a": [SECRET, 1, None, {"b": f"x{SECRET}"}], SECRET: True}) == {
        "a": ["[redacted:KEY]", 1, None, {"b": "x[redacted:KEY]"}],
        "[redacted:KEY]": True,
    }


def test_nothing_is_known_without_values():
    assert Redactor({}).redact("text") == "text"


@pytest.mark.parametrize("size", [1, 2, 7, 31, 32, 33, 1000])
def test_a_value_split_over_chunks_is_found(size):
    text = f"before {SECRET} between {SECRET}{SECRET} after"
    stream = RedactingStream(REDACTOR)
    given_out = [stream.feed(text[place : place + size]) for place in range(0, len(text), size)]
    assert "".join([*given_out, stream.finish()]) == (
        "before [redacted:KEY] between [redacted:KEY][redacted:KEY] after"
    )


@given(
    text=st.text(alphabet="6\n", max_size=120),
    cuts=st.lists(st.integers(0, 120), max_size=6),
    values=st.lists(st.integers(8, 20).map(lambda size: "f" * size), min_size=1, max_size=2),
)
def test_a_stream_gives_what_the_whole_text_gives_of_folded_text_too(text, cuts, values):
    redactor = Redactor({f"K{number}": value for number, value in enumerate(values)})
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    stream = RedactingStream(redactor)
    given_out = [stream.feed(text[start:end]) for start, end in pairwise(places)]
    assert "".join([*given_out, stream.finish()]) == redactor.redact(text)


@given(
    text=st.text(alphabet="ab", max_size=120),
    cuts=st.lists(st.integers(0, 120), max_size=6),
    values=st.lists(st.text(alphabet="ab", min_size=8, max_size=11), min_size=1, max_size=3),
)
def test_a_stream_gives_what_the_whole_text_gives(text, cuts, values):
    redactor = Redactor({f"K{number}": value for number, value in enumerate(values)})
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    stream = RedactingStream(redactor)

    given_out = [stream.feed(text[start:end]) for start, end in pairwise(places)]

    whole = redactor.redact(text)
    assert "".join([*given_out, stream.finish()]) == whole
    assert [value for value in values if value in whole] == []


def test_a_flood_with_twenty_secrets_takes_less_than_a_second():
    redactor = Redactor({f"K{number}": f'sk-{number}-{"x/y+" * 8}"' for number in range(20)})
    piece = "2026-01-01 INFO request handled in 12 ms <ok>\n" * 1_425  # the size of a chunk
    stream = RedactingStream(redactor)
    start = time.process_time()
    for _ in range(256):
        stream.feed(piece)
    # Measured: 0.5 s.
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize(
    "text",
    ["a" * 2**20, "sk-abcdefghijklmno" * 60_000, "61" * 2**19, ("61" * 30 + "\n") * 2**14],
    ids=["sea", "near misses", "sea of hex", "folded sea of hex"],
)
def test_time_is_linear(text):
    redactor = Redactor({"A": "a" * 12, "B": "aaaaaaab", "C": "sk-abcdefghijklmnop"})

    def seconds(piece: str) -> float:
        start = time.process_time()
        redactor.redact(piece)
        return time.process_time() - start

    seconds(text[:1000])
    # Eight times the text; quadratic time would be sixty-four times.
    assert min(seconds(text) for _ in range(3)) < 24 * max(min(seconds(text[: len(text) // 8]) for _ in range(3)), 1e-4)
