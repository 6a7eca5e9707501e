from __future__ import annotations

import pytest

from toolhost.shell_read_only import known_read_only
from toolhost.shellwords import analyse


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "ls -la src",
        "cat 'a b' c",
        "head -n 5 x",
        "wc -l x",
        "true",
        "pwd",
        "grep -rn 'a|b' src",
        "sort -n x",
        "find . -name '*.py' -type f",
        "git status",
        "git --no-pager log --oneline -5",
        "git diff --stat HEAD",
        "git branch -a",
        "env",
    ],
)
def test_plain_readers(command):
    assert known_read_only(analyse(command)) is True


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "ls; rm x",
        "ls | cat",
        "ls > x",
        "cat < x",
        "ls $(rm x)",
        'ls "$x"',
        "ls *.py",
        "A=1 ls",
        "ls &",
        "ls\nls",
        "env ls",
        "env -S ls",
        "timeout 5 ls",
        "/tmp/ls",
        "sort -o x x",
        "sort -ro x x",
        "sort --output=x",
        "sort --out x x",
        "sort --compress-prog=sh x",
        "uniq a b",
        "rg --pre sh x",
        "find . -delete",
        "find . -exec rm {} +",
        "find . -fprintf x y",
        "git",
        "git push",
        "git -c core.pager=sh log",
        "git -C /x log",
        "git diff --output=x",
        "git diff --outp=x",
        "git diff --ext-diff",
        "git log --textconv",
        "git branch new",
        "git branch -D old",
        "",
        "{ls,x}",
    ],
)
def test_everything_else_is_not_known_to_be(command):
    assert known_read_only(analyse(command)) is False
