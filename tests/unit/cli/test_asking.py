"""What people type, and what they are shown."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from anabranch.cli import main
from anabranch.cli.asking import (
    Asking,
    namespace_elements,
    read_properties,
    table,
    topic_elements,
)
from anabranch.cli.entry import COMMANDS
from anabranch.cli.quantities import BYTES, SECONDS
from anabranch.cli.topics import MAX_LONG, read_message_id


@pytest.mark.parametrize("text", ["x", "public/default/x", "persistent://public/default/x"])
def test_a_topic_may_be_short(text: str) -> None:
    assert topic_elements(text) == ("public", "default", "x")


@pytest.mark.parametrize("text", ["a/b", "", "topic://t/n/x", "persistent://x", "t//x"])
def test_what_is_no_topic_is_not_understood(text: str) -> None:
    with pytest.raises(click.UsageError):
        topic_elements(text)


def test_a_namespace_has_two_parts() -> None:
    assert namespace_elements("t/n") == ("t", "n")
    for text in ("t", "t/n/x", "/n"):
        with pytest.raises(click.UsageError):
            namespace_elements(text)


def test_properties_come_one_by_one_or_with_commas() -> None:
    assert read_properties(["a=1,b=2", "c=x=y"]) == {"a": "1", "b": "2", "c": "x=y"}
    with pytest.raises(click.UsageError):
        read_properties(["nothing"])


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("10m", 600), ("2h", 7200), ("7D", 604_800), ("-1", -1)]
)
def test_times_have_units(text: str, seconds: int) -> None:
    assert SECONDS.convert(text, None, None) == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("5", 5), ("4K", 4096), ("1g", 1 << 30), ("1GiB", 1 << 30), ("-1", -1)]
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert BYTES.convert(text, None, None) == size


@pytest.mark.parametrize("text", ["", "x", "10y", "1.5h", "1 h"])
def test_a_quantity_without_a_known_unit_is_not_understood(text: str) -> None:
    with pytest.raises(click.BadParameter):
        SECONDS.convert(text, None, None)


def test_message_ids_have_names() -> None:
    assert read_message_id("earliest") == {"ledgerId": -1, "entryId": -1}
    assert read_message_id("latest") == {"ledgerId": MAX_LONG, "entryId": MAX_LONG}
    assert read_message_id("3:4") == {"ledgerId": 3, "entryId": 4}
    for text in ("3", "a:b", ":"):
        with pytest.raises(click.UsageError):
            read_message_id(text)


def test_a_table_is_as_wide_as_its_widest_cell() -> None:
    assert table(("name", "n"), [["a", 1], ["long name", 1234.5]]) == (
        "NAME       N\n"
        "a          1\n"
        "long name  1,234.50"
    )  # fmt: skip


def test_an_answer_is_shown_to_people_or_to_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    people, scripts = Asking("http://x"), Asking("http://x", as_json=True)
    for value, shown in ((None, "not set\n"), (["a", "b"], "a\nb\n"), ({"k": True}, "k  yes\n")):
        people.show(value)
        assert capsys.readouterr().out == shown
        scripts.show(value)
        assert json.loads(capsys.readouterr().out) == value
    people.say("done it")
    scripts.say("done it")
    assert capsys.readouterr().out == 'done it\n{"done": "done it"}\n'


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_helps(name: str) -> None:
    found = CliRunner().invoke(main, [name, "--help"])
    assert found.exit_code == 0, found.output
    assert "Usage:" in found.output


def test_every_verb_of_every_group_helps_and_speaks_json() -> None:
    context = click.Context(main)
    for name in COMMANDS:
        assert isinstance(main, click.Group)
        group = main.get_command(context, name)
        if not isinstance(group, click.Group):
            continue
        for verb, command in group.commands.items():
            found = CliRunner().invoke(main, [name, verb, "--help"])
            assert found.exit_code == 0, (name, verb, found.output)
            assert "--json" in found.output
            assert command.help, (name, verb)


def test_the_list_of_commands_is_shown_without_importing_them() -> None:
    found = CliRunner().invoke(main, ["--help"])
    assert all(name in found.output for name in COMMANDS)
