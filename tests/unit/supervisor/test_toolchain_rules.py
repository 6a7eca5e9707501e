"""Which directories below the masks are shown, and which never are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.toolchain_rules import SECRET_NAMES, Found, Surroundings, binds, safe, search_path
from toolhost.sandbox import Bind, within

HOME = "/home/u"
NAMES = {
    f"{HOME}/.nvm/versions/node/v20": {"bin", "lib", "include"},
    f"{HOME}/venv": {"bin", "lib", "pyvenv.cfg"},
    f"{HOME}/tokens": {"bin", "lib", ".npmrc"},
    f"{HOME}/tools": {"bin", "notes"},
    f"{HOME}/.local": {"bin", "lib", "share"},
    f"{HOME}/.local/lib": {"python3.11"},
    f"{HOME}/.rustup": {"toolchains"},
    f"{HOME}/.cargo": {"bin", "credentials.toml", "registry"},
    f"{HOME}/.cargo/bin": {"cargo"},
    f"{HOME}/.local/bin": {"uv"},
    HOME: {"bin", ".ssh", "lib"},
}
AROUND = Surroundings(
    homes=(HOME,),
    hidden=("/home", "/tmp", "/run"),
    forbidden=(f"{HOME}/.local/state/covey",),
    names={path: frozenset(names) for path, names in NAMES.items()},
)


def same(*paths: str) -> tuple[Bind, ...]:
    return tuple(Bind(path, path) for path in paths)


def place(path: str) -> Found:
    return Found(path, path)


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        ("/usr/bin", ()),
        (f"{HOME}/.pyenv/shims", (f"{HOME}/.pyenv",)),
        (f"{HOME}/.pyenv/versions/3.11.7/bin", (f"{HOME}/.pyenv",)),
        (f"{HOME}/.nvm/versions/node/v20/bin", (f"{HOME}/.nvm/versions/node/v20",)),
        (f"{HOME}/venv/bin", (f"{HOME}/venv",)),
        (f"{HOME}/.cargo/bin", (f"{HOME}/.cargo/bin", f"{HOME}/.rustup")),
        (f"{HOME}/.local/bin", (f"{HOME}/.local/bin", f"{HOME}/.local/lib")),
        (f"{HOME}/tools/bin", (f"{HOME}/tools/bin",)),
        (f"{HOME}/bin", (f"{HOME}/bin", f"{HOME}/lib")),
        (f"{HOME}/tokens/bin", (f"{HOME}/tokens/bin", f"{HOME}/tokens/lib")),
        ("/tmp/x/bin", ("/tmp/x/bin",)),
        (HOME, ()),
        ("/home", ()),
        (f"{HOME}/.ssh", ()),
        (f"{HOME}/.config/composer/vendor/bin", ()),
        (f"{HOME}/.local/state/covey/code", ()),
        (f"{HOME}/.local/state", ()),
    ],
)
def test_what_an_entry_of_path_shows(entry, shown):
    assert binds([place(entry)], AROUND) == same(*shown)


def test_an_installation_reached_by_another_name_is_shown_under_both():
    found = Found(f"{HOME}/node/current/bin", f"{HOME}/.nvm/versions/node/v20/bin")
    root = f"{HOME}/.nvm/versions/node/v20"

    assert binds([found], AROUND) == (Bind(root, root), Bind(root, f"{HOME}/node/current"))


def test_a_linked_program_in_no_installation_is_shown_alone():
    found = Found(f"{HOME}/projects/x", f"{HOME}/projects/x", file=f"{HOME}/projects/x/run.sh")

    assert binds([found], AROUND) == same(f"{HOME}/projects/x/run.sh")


@pytest.mark.parametrize("name", [f"{HOME}/.netrc", f"{HOME}/.ssh/id", f"{HOME}/.git-credentials"])
def test_a_link_to_a_secret_shows_nothing(name):
    directory = name.rsplit("/", 1)[0]

    assert binds([Found(directory, directory, file=name)], AROUND) == ()


names = st.sampled_from([*sorted(SECRET_NAMES), "bin", "lib", "share", "x", ".pyenv", ".cargo", ".local"])
places = st.lists(names, max_size=5).map(lambda parts: "/".join((HOME, *parts)))


@given(st.lists(places, max_size=4), st.dictionaries(places, st.frozensets(names), max_size=4))
def test_nothing_shown_holds_a_home_or_a_secret(entries, listing):
    around = Surroundings((HOME,), ("/home",), (f"{HOME}/x",), listing)
    for bind in binds([place(entry) for entry in entries], around):
        assert not within(HOME, bind.source)
        assert not within(f"{HOME}/x", bind.source)
        outside_managers = not bind.source.startswith(f"{HOME}/.pyenv")
        assert not (outside_managers and SECRET_NAMES & set(bind.source.split("/")))
        assert not (outside_managers and SECRET_NAMES & listing.get(bind.source, frozenset()))


def test_a_directory_with_a_secret_in_it_is_not_safe():
    assert not safe(f"{HOME}/tokens", AROUND)
    assert safe(f"{HOME}/venv", AROUND)


def test_the_path_inside_has_what_can_be_seen_in_its_order():
    entries = [f"{HOME}/venv/bin", "/usr/bin", f"{HOME}/gone", f"{HOME}/p/node_modules/.bin", "/usr/bin"]

    assert search_path(entries, [f"{HOME}/venv", f"{HOME}/p"], AROUND, "/run/covey/bin") == ":".join(
        [
            *(
                "/run/covey/bin",
                f"{HOME}/venv/bin",
                "/usr/bin",
                f"{HOME}/p/node_modules/.bin",
                "/usr/local/bin",
                "/bin",
            ),
        ]
    )
