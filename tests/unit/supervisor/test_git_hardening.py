"""The pure half of the git wrapper: flags, settings, and what goes into the sandbox."""

import pytest

from supervisor.git_hardening import (
    ConfigEntry,
    command_line,
    driver_overrides,
    inside_environment,
    settings_environment,
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["log", "-p"], ["--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "-p"]),
        (["status", "-s"], ["--ignore-submodules=all", "-s"]),
        (["blame", "f"], ["--no-textconv", "f"]),
        (["commit", "-m", "x"], ["-m", "x"]),
    ],
)
def test_the_flags_of_a_subcommand(words, expected):
    assert command_line("/usr/bin/git", words) == ["/usr/bin/git", "--no-pager", words[0], *expected]


def test_drivers_are_disarmed_by_the_names_they_have():
    keys = ["filter.x.clean", "filter.A=b.c.process", "diff.j.textconv", "merge.m.driver", "user.name", "diff.external"]

    assert driver_overrides(keys) == {
        "filter.x.clean": "",
        "filter.A=b.c.process": "",
        "diff.j.textconv": "cat",
        "merge.m.driver": "false",
    }


def test_settings_are_numbered_variables():
    assert settings_environment([("filter.a=b.clean", ""), ("user.name", "n")]) == {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "filter.a=b.clean",
        "GIT_CONFIG_VALUE_0": "",
        "GIT_CONFIG_KEY_1": "user.name",
        "GIT_CONFIG_VALUE_1": "n",
    }


def test_of_the_users_settings_only_harmless_ones_go_inside():
    entries = [
        ConfigEntry("~/.gitconfig", "user.email", "e"),
        ConfigEntry("~/.gitconfig", "core.sshcommand", "ssh -i key"),
        ConfigEntry("~/.gitconfig", "url.https://token@host/.insteadof", "https://host/"),
    ]

    assert inside_environment(entries) == {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "user.email",
        "GIT_CONFIG_VALUE_0": "e",
    }
    assert inside_environment([]) == {}
