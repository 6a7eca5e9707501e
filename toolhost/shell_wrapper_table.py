"""
Which options the wrappers take before the command they run.

An option that is missing here makes the call uncheckable, never misread, so the table may be incomplete but must not be
wrong: an option listed without its value would make the value look like the command.

Sources: the manual pages of coreutils, util-linux, findutils, sudo, doas, procps and strace.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wrapper:
    """
    The options of one wrapper.

    *flags* and *values* are short options without and with a value, *optional* those whose value, if any, is attached;
    *long_flags* and *long_values* the same for long ones, separated by blanks (unambiguous beginnings count too).
    *shell_options*: options whose value is shell text. *operands*: words between options and command. *assigns*:
    NAME=VALUE words may stand there. *joins*: the words are joined and given to a shell. *open_ended*: more words are
    added when it runs. *transparent*: it does nothing but run the command.
    """

    flags: str = ""
    values: str = ""
    optional: str = ""
    long_flags: str = "help version"
    long_values: str = ""
    shell_options: tuple[str, ...] = ()
    operands: int = 0
    assigns: bool = False
    joins: bool = False
    open_ended: bool = False
    transparent: bool = False


WRAPPERS: dict[str, Wrapper] = {
    "env": Wrapper(
        flags="iv0",
        values="uCa",
        long_flags="help version ignore-environment null debug list-signal-handling",
        long_values="unset chdir argv0",
        shell_options=("S", "split-string"),
        assigns=True,
    ),
    "timeout": Wrapper(
        flags="vpf",
        values="sk",
        long_flags="help version preserve-status foreground verbose",
        long_values="signal kill-after",
        operands=1,
        transparent=True,
    ),
    "nice": Wrapper(flags="0123456789", values="n", long_values="adjustment", transparent=True),
    "nohup": Wrapper(transparent=True),
    "stdbuf": Wrapper(values="ioe", long_values="input output error", transparent=True),
    "ionice": Wrapper(
        flags="t", values="cn", long_flags="help version ignore", long_values="class classdata", transparent=True
    ),
    "time": Wrapper(flags="pvV", transparent=True),
    "setsid": Wrapper(flags="cfw", long_flags="help version ctty fork wait"),
    "xargs": Wrapper(
        flags="0oprtx",
        values="adEILnPs",
        optional="eil",
        long_flags="help version null open-tty interactive no-run-if-empty verbose exit show-limits",
        long_values="arg-file delimiter max-args max-procs max-chars",
        open_ended=True,
    ),
    "sudo": Wrapper(
        flags="ABbEeHKklNnPSisVv",
        values="CDghpRrTtUu",
        long_flags="help version askpass background edit set-home login non-interactive stdin shell preserve-groups "
        "reset-timestamp remove-timestamp validate list",
        long_values="user group host prompt chroot chdir role type command-timeout close-from other-user",
        assigns=True,
    ),
    "doas": Wrapper(flags="Lns", values="aCu", assigns=True),
    "command": Wrapper(flags="pvV"),
    "builtin": Wrapper(),
    "exec": Wrapper(flags="cl", values="a"),
    "coproc": Wrapper(),
    "busybox": Wrapper(),
    "flock": Wrapper(
        flags="sxenFuov",
        values="wE",
        long_flags="help version shared exclusive nonblock no-fork unlock close verbose",
        long_values="wait timeout conflict-exit-code",
        shell_options=("c", "command"),
        operands=1,
    ),
    "watch": Wrapper(
        flags="bceghprtwx",
        values="nq",
        optional="d",
        long_flags="help version beep color errexit chgexit precise no-rerun no-title no-wrap exec differences",
        long_values="interval equexit",
        joins=True,
    ),
    "strace": Wrapper(
        flags="cCdfFhiknqrtTvVwxyYzZ",
        values="abeEIoOpPsSuUX",
        long_flags="help version follow-forks summary-only summary no-abbrev",
        long_values="output trace env user string-limit attach signal status",
    ),
    "ltrace": Wrapper(flags="bcCfhiLrStTV", values="aAeDFlnopsuxX"),
    "unshare": Wrapper(
        flags="mupnUrcCTif",
        values="SGRw",
        long_flags="help version mount uts ipc net pid user cgroup time fork map-root-user map-current-user map-auto "
        "keep-caps",
        long_values="setuid setgid root wd propagation setgroups map-user map-group map-users map-groups",
    ),
    "chroot": Wrapper(long_flags="help version skip-chdir", long_values="userspec groups", operands=1),
    "taskset": Wrapper(flags="ac", long_flags="help version all-tasks cpu-list", operands=1),
    "chrt": Wrapper(flags="abdfiorRv", values="TPD", operands=1),
    "setpriv": Wrapper(long_flags="help version nnp no-new-privs clear-groups keep-groups init-groups reset-env"),
    "prlimit": Wrapper(),
}
