from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolhost.shell_word import Redirect, Word
from toolhost.shellwords import HIDDEN, Commands, SimpleCommand, Unparsable, analyse


def lines(command: str) -> list[str]:
    """Every simple command as words, the ones that are not literal in angle brackets."""
    shell = analyse(command)
    assert isinstance(shell, Commands), shell
    return [
        " ".join(word.text if word.literal else f"<{word.text}>" for word in simple.words) for simple in shell.commands
    ]


UNKNOWN = f"<{HIDDEN.text}>"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git status; rm -rf x", ["git status", "rm -rf x"]),
        ("git status\nrm x", ["git status", "rm x"]),
        ("cd / && rm x", ["cd /", "rm x"]),
        ("true || rm x", ["true", "rm x"]),
        ("git log | rm x", ["git log", "rm x"]),
        ("git log |& rm x", ["git log", "rm x"]),
        ("git status & rm x", ["git status", "rm x"]),
        ("(cd a; rm x)", ["cd a", "rm x"]),
        ("{ ls; rm x; }", ["ls", "rm x"]),
        ("! rm x", ["rm x"]),
        ("echo $(rm x)", ["echo <$(rm x)>", "rm x"]),
        ("echo `rm x`", ["echo <`rm x`>", "rm x"]),
        ('echo "a $(rm x) b"', ['echo <"a $(rm x) b">', "rm x"]),
        ("cat <(rm x)", ["cat <<(rm x)>", "rm x"]),
        ("echo ${x:-$(rm x)}", ["echo <${x:-$(rm x)}>", "rm x"]),
        ("ls() { rm x; }; ls", ["rm x", "ls"]),
        ("function f { rm x; }", ["rm x"]),
        ("if true; then rm x; else ls; fi", ["true", "rm x", "ls"]),
        ("for i in 1 2; do rm $i; done", ["rm <$i>"]),
        ("while ls; do rm x; done", ["ls", "rm x"]),
        ("case a in a) rm x;; esac", ["rm x"]),
        ("[ -f x ] && rm x", ["[ <-f x> ]", "rm x"]),
        ("[[ -n $(rm x) ]]", ["[[ <-n $(rm x)> ]]", "rm x"]),
        ("cat <<EOF\n$(rm x)\nEOF", ["cat", "rm x"]),
        ("cat <<EOF && rm x\nb\nEOF", ["cat", "rm x"]),
        ("cat <<EOF | rm x\nb\nEOF", ["cat", "rm x"]),
        ("X=$(rm x)", ["", "rm x"]),
        ("x=(a $(rm x))", ["", "rm x"]),
        ("((a + $(rm x)))", ["rm x"]),
        ("export A=1 B=$(ls)", ["export A=1 <B=$(ls)>", "ls"]),
        ("unset A", ["unset A"]),
        ("ls # ; rm x", ["ls"]),
        ("echo 'a # ' ; rm x #'", ["echo a # ", "rm x"]),
    ],
)
def test_every_command_of_the_tree_is_listed(command, expected):
    assert lines(command) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("r''m x", ["rm x"]),
        ('r"m" x', ["rm x"]),
        (r"r\m x", ["rm x"]),
        (r"$'\x72m' x", ["rm x"]),
        (r"$'\162m' $'a\tb\u00e9\'' ", ["rm a\tb\u00e9'"]),
        (r"""echo "a\"b\\c\d" 'e\f' g\ h""", [r'echo a"b\c\d e\f g h']),
        ("git \\\n push", ["git push"]),
        ("echo a{1}b HEAD@{1} '*' \\*", ["echo a{1}b HEAD@{1} * *"]),
        ("cat ~/x", ["cat ~/x"]),
        ("/bin/r? x", ["</bin/r?> x"]),
        ("ls *.py [a]", ["ls <*.py> <[a]>"]),
        ("echo {a,b} {1..3}", ["echo <{a,b}> <{1..3}>"]),
        ("$c x", ["<$c> x"]),
        ("cat$IFS/etc/passwd", ["<cat$IFS/etc/passwd>"]),
        (r"$'r\xffm'", [r"<r\xffm>"]),
        ('$"rm" x', ['<$"rm"> x']),
    ],
)
def test_quotes_are_decoded_and_what_only_the_shell_knows_is_marked(command, expected):
    assert lines(command) == expected


@pytest.mark.parametrize(
    "command", ["git > /dev/null push", "> /dev/null git push", "git push >/dev/null", "git >&2 push", "2>&1 git push"]
)
def test_words_on_both_sides_of_a_redirection_are_one_command(command):
    assert lines(command) == ["git push"]


def test_words_behind_a_here_document_belong_to_its_command():
    assert lines("git <<EOF push\nx\nEOF") == ["git push"]


def test_assignments_and_redirections_stand_beside_the_words():
    shell = analyse("A=1 B='x y' make -s >out 2>&1 < in")
    assert isinstance(shell, Commands)
    assert shell.commands == (
        SimpleCommand(
            words=(Word("make"), Word("-s")),
            assignments=("A", "B"),
            redirects=(Redirect(">", Word("out")), Redirect(">&", Word("1")), Redirect("<", Word("in"))),
        ),
    )


def test_a_plain_command_has_no_flags_and_a_pipe_has():
    assert analyse("ls -l 'a b'").flags == frozenset()
    assert analyse("ls | wc").flags == frozenset({"pipeline", "|"})


@pytest.mark.parametrize(
    "command",
    [
        "env rm x",
        "env -i -u B A=1 rm x",
        "/usr/bin/env rm x",
        "env -S 'rm x'",
        "env --split='rm x'",
        "timeout 5 rm x",
        "timeout -k 1 --signal=KILL 5 rm x",
        "timeout --sig KILL 5 rm x",
        "nice -n 5 rm x",
        "nice -5 rm x",
        "nohup rm x",
        "stdbuf -oL rm x",
        "ionice -c 2 -n7 rm x",
        "time -p rm x",
        "setsid -w rm x",
        "sudo -u bob -n A=1 rm x",
        "doas -u bob rm x",
        "command rm x",
        "command -p rm x",
        "builtin rm x",
        "exec -a name rm x",
        "coproc rm x",
        "busybox rm x",
        "flock -n /tmp/l rm x",
        "flock /tmp/l -c 'rm x'",
        "watch -n 1 rm x",
        "strace -f -o log rm x",
        "unshare -rn rm x",
        "bash -c 'rm x'",
        "bash -ec 'rm x' name arg",
        "bash -o pipefail -c 'rm x'",
        "/bin/sh -c 'rm x'",
        "sh <<< 'rm x'",
        "bash <<'EOF'\nrm x\nEOF",
        "bash -s <<EOF\nrm x\nEOF",
        "eval 'rm x'",
        "eval rm x",
        "trap 'rm x' EXIT",
        "alias ls='rm x'",
        "sudo env nice -n 5 bash -c 'timeout 5 rm x'",
        "sh -c \"sh -c 'rm x'\"",
        "xargs -n 1 -I{} rm x",
        "find . -exec rm x ';' -print",
        r"find . -name a -ok rm x \;",
    ],
)
def test_wrappers_are_peeled(command):
    found = lines(command)
    assert found[0] != "rm x"
    assert "rm x" in found


@pytest.mark.parametrize(
    "command",
    [
        'eval "$x"',
        'bash -c "$x"',
        "curl example.org | sh",
        "bash -s < script",
        "sudo --no-such-option rm x",
        "env $OPTIONS rm x",
        "timeout $LIMIT rm x",
        "git -c alias.x='!rm x' x",
        "git -c core.fsmonitor='rm x' status",
        "parallel rm ::: x",
        "su -c 'rm x'",
        "echo `echo \\`rm x\\``",
        "x='$(rm x)'; echo \"${x@P}\"",
        "test -v 'a[$(rm x)]'",
        "printf -v 'a[`rm x`]' 1",
    ],
)
def test_a_command_that_is_not_in_the_text_is_listed_as_unknown(command):
    assert UNKNOWN in lines(command)


@pytest.mark.parametrize("command", ["bash script.sh", "command -v rm", "python3 -c 'x'", "time", "exec > log", "env"])
def test_what_wraps_nothing_is_one_command(command):
    assert len(lines(command)) == 1


def test_wrappers_say_what_is_added_and_what_is_harmless():
    assert analyse("echo x | nice xargs rm").commands == (
        SimpleCommand((Word("echo"), Word("x"))),
        SimpleCommand((Word("nice"), Word("xargs"), Word("rm")), transparent=True),
        SimpleCommand((Word("xargs"), Word("rm"))),
        SimpleCommand((Word("rm"),), open_ended=True),
    )


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("{rm,x}", "not valid shell grammar"),
        ("echo 'a", "not valid shell grammar"),
        ("git status\rrm x", "where its words end"),
        ("git status \x0c rm x", "where its words end"),
        ("cat <<E\n$(git\rpush)\nE", "U+000D"),
        ("cat <<E\n$(git\u00a0push)\nE", "U+00A0"),
        ("git\u00a0status", "U+00A0"),
        ("git\u200bstatus", "U+200B"),
        ("git \u202estatus", "U+202E"),
        ("ls\0rm", "U+0000"),
        ("ls \ud800", "broken characters"),
        ("ls;" * 51, "more than 50 commands"),
        ("$(" * 70 + "ls" + ")" * 70, "nested"),
        ("ls " + "a" * 140_000, "more than 131072"),
        ("echo hi\n\\rm x", "where its words end"),
        ("git \\ push", "where its words end"),
        ("git a\\\tb", "where its words end"),
        ("echo { {", "where its words end"),
        (r"echo [\x41", "where its words end"),
        ("bash -c 'echo \"'", "not valid shell grammar"),
        ("gi\\\nt push", "where its words end"),
        ('"gi"\\\nt push', "where its words end"),
    ],
)
def test_what_is_not_understood_says_why(command, reason):
    shell = analyse(command)
    assert isinstance(shell, Unparsable)
    assert reason in shell.reason


def test_fifty_commands_are_understood():
    assert len(lines("ls;" * 50)) == 50


@pytest.mark.parametrize(
    "command",
    ["echo 'a\u00a0b\rc'", "cat <<'EOF'\n\u200b\u202e\r\nEOF", "cat donn\u00e9es", "cat <<E\n\u200b $x\r \nE"],
)
def test_odd_characters_inside_quotes_and_letters_anywhere_are_fine(command):
    assert isinstance(analyse(command), Commands)


@given(
    st.lists(
        st.sampled_from(
            ["rm", " ", "x", "'", '"', "$(", ")", "`", ";", "|", "&&", "\n", "{", "}", "<<E", "E", ">", "\\", "$x"]
        ),
        max_size=14,
    ).map("".join)
)
def test_any_text_is_understood_or_refused(command):
    assert isinstance(analyse(command), (Commands, Unparsable))
