"""What commands get of the environment: an allow-list, what was asked for, and never a provider's key."""

from __future__ import annotations

import os

import pytest

from supervisor.run_dir import Refused
from supervisor.sandboxing import Fence
from supervisor.tool_environment import tool_environment

FENCE = Fence(
    argv=(),
    sandboxed=True,
    roots=("/w",),
    toolhost_roots=("/w",),
    protected=(),
    state_dirs=(),
    path="/usr/bin",
    home="/home/u",
    git_settings={"GIT_CONFIG_COUNT": "0"},
    explain=str,
    renew=lambda: None,
    aftermath=tuple,
    release=lambda: None,
)
FORCED = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "GCM_INTERACTIVE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "npm_config_yes": "true",
    "npm_config_update_notifier": "false",
}
PROVIDER_KEYS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_ADMIN_KEY",
    "OPENAI_API_KEY",
    "OPENAI_ADMIN_KEY",
    "OPENAI_API_KEY_2",
)


def test_only_what_is_on_the_list_gets_in():
    given = {"LANG": "de_DE.UTF-8", "LC_ALL": "C", "TZ": "UTC", "PATH": "/mine", "HOME": "/mine", "PAGER": "less"}
    secrets = {
        "AWS_SECRET_ACCESS_KEY": "k",
        "SSH_AUTH_SOCK": "/s",
        "LD_PRELOAD": "x",
        **dict.fromkeys(PROVIDER_KEYS, "k"),
    }

    assert tool_environment({**given, **secrets}, (), FENCE) == {
        "LANG": "de_DE.UTF-8",
        "LC_ALL": "C",
        "TZ": "UTC",
        "PATH": "/usr/bin",
        "HOME": "/home/u",
        "GIT_CONFIG_COUNT": "0",
        **FORCED,
    }


def test_a_named_variable_is_passed_on_even_against_what_is_forced():
    found = tool_environment({"GH_TOKEN": "t", "PAGER": "less"}, ("GH_TOKEN", "PAGER"), FENCE)

    assert (found["GH_TOKEN"], found["PAGER"]) == ("t", "less")


@pytest.mark.parametrize("name", PROVIDER_KEYS)
def test_a_providers_key_is_refused_also_by_name(name):
    with pytest.raises(Refused, match="never get a provider's key"):
        tool_environment({name: "k"}, (name,), FENCE)


@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "ANTHROPIC_MODEL", "KEY_OPENAI"])
def test_what_is_no_key_may_be_named(name):
    assert tool_environment({name: "v"}, (name,), FENCE)[name] == "v"


def test_a_variable_that_is_not_set_is_an_error():
    with pytest.raises(Refused, match="not set"):
        tool_environment({}, ("NOWHERE",), FENCE)


@pytest.mark.parametrize("name", ["GIT_ASKPASS", "SSH_ASKPASS", "GIT_EDITOR", "PAGER"])
def test_the_programs_that_stand_in_exist(name):
    assert any(os.access(f"{directory}/{FORCED[name]}", os.X_OK) for directory in ("/usr/bin", "/bin"))
