import pytest

from supervisor.secret_names import secrets_of


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "GH_TOKEN", "aws_secret_access_key", "DB_PASSWORD", "GITHUB_PAT", "GPG_PASSPHRASE", "NPM_AUTH"],
)
def test_a_telling_name_makes_a_secret(name):
    assert secrets_of({name: "s3cret-value"}) == {name: "s3cret-value"}


@pytest.mark.parametrize("name", ["PATH", "HOME", "KEYBOARD", "PWD", "NODE_ENV", "TOKENIZERS_PARALLELISM", "COMPAT"])
def test_other_names_make_none(name):
    assert secrets_of({name: "a value of some length"}) == {}


def test_a_short_value_is_none():
    assert secrets_of({"API_KEY": "1234567"}) == {}


def test_the_password_of_an_address_is_a_secret_as_it_stands_and_decoded():
    assert secrets_of({"DATABASE_URL": "postgres://me:p%40ssw0rd-x@db:5432/app"}) == {
        "DATABASE_URL": "p%40ssw0rd-x",
        "DATABASE_URL:plain": "p@ssw0rd-x",
    }


def test_an_address_without_a_password_is_no_secret():
    assert secrets_of({"PROXY": "http://proxy.example:8080/", "SITE": "https://me@example.org/a:b"}) == {}
