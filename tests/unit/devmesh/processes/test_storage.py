"""Directories of brokers, formatted by copies of what Kafka's tool wrote once; whole or to be done again."""

import threading
from pathlib import Path

import pytest

from braid.kernel.errors import Unavailable
from devmesh.blueprint import BrokerPlace, broker_settings
from devmesh.processes import storage
from devmesh.processes.storage import (
    format_directory,
    is_formatted,
    new_kafka_id,
    properties_text,
    template,
    with_values,
)
from devmesh.toolchain.jvm import FORMAT_CLASS, KafkaJvm
from tests.support.fake_java import CHECKPOINT, calls, fake_java


@pytest.fixture
def jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KafkaJvm:
    """A Kafka whose tool notes its runs, and a user without a cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return KafkaJvm(str(fake_java(tmp_path)), "kafka.jar")


def formatted(jvm: KafkaJvm, directory: Path, node_id: str = "1", overridden: tuple[str, ...] = ()) -> dict[str, str]:
    """Formats a directory; returns its properties."""
    config, data = directory.with_suffix(".properties"), directory
    place = BrokerPlace("a", "127.0.0.1", 1, 2, str(data))
    config.write_text(properties_text(broker_settings(place)))
    format_directory(jvm, config, data, new_kafka_id(), node_id, overridden)
    return properties(data)


def properties(data: Path) -> dict[str, str]:
    """The properties that a broker reads back."""
    lines = (line for line in (data / "meta.properties").read_text().splitlines() if not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines)


def test_the_tool_runs_once_and_directories_have_their_own_ids(jvm: KafkaJvm, tmp_path: Path) -> None:
    east, west = formatted(jvm, tmp_path / "east"), formatted(jvm, tmp_path / "west", node_id="7")
    assert calls(tmp_path) == [FORMAT_CLASS]
    assert (east["version"], east["node.id"], west["node.id"]) == ("1", "1", "7")
    assert len({east["cluster.id"], west["cluster.id"], east["directory.id"], west["directory.id"]}) == 4
    assert {(tmp_path / name / "bootstrap.checkpoint").read_bytes() for name in ("east", "west")} == {CHECKPOINT}
    assert sorted(path.name for path in (tmp_path / "east").iterdir()) == ["bootstrap.checkpoint", "meta.properties"]


def test_brokers_formatted_at_once_make_one_template(jvm: KafkaJvm, tmp_path: Path) -> None:
    made = []
    threads = [threading.Thread(target=lambda: made.append(template(jvm))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 1
    assert calls(tmp_path) == [FORMAT_CLASS]


def test_a_format_cut_short_is_done_again(jvm: KafkaJvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template(jvm)
    real, data = storage.write_durably, tmp_path / "east"

    def dies(path: Path, content: bytes) -> None:
        if path.name == "meta.properties":
            path.with_name(".meta.properties.new").write_bytes(content[:9])
            raise KeyboardInterrupt
        real(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "write_durably", dies)
        with pytest.raises(KeyboardInterrupt):
            formatted(jvm, data)
    assert (data / "bootstrap.checkpoint").exists()
    assert not is_formatted(data)
    assert formatted(jvm, data).keys() == {"version", "cluster.id", "node.id", "directory.id"}
    assert sorted(path.name for path in data.iterdir()) == ["bootstrap.checkpoint", "meta.properties"]


def test_a_tool_that_fails_is_quoted_and_leaves_no_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    broken = KafkaJvm(str(fake_java(tmp_path / "broken", mode="no format")), "kafka.jar")
    with pytest.raises(Unavailable, match="made of cheese"):
        formatted(broken, tmp_path / "east")
    assert [path.suffix for path in (tmp_path / "cache" / "braid").iterdir()] == [".lock"]
    assert not is_formatted(tmp_path / "east")


@pytest.mark.parametrize("key", ["process.roles", "metadata.log.dir", "controller.quorum.bootstrap.servers"])
def test_who_overrides_what_the_tool_looks_at_gets_the_tool(jvm: KafkaJvm, tmp_path: Path, key: str) -> None:
    formatted(jvm, tmp_path / "east", overridden=("num.io.threads",))
    formatted(jvm, tmp_path / "west", overridden=(key,))
    assert calls(tmp_path) == [FORMAT_CLASS, FORMAT_CLASS]


def test_other_jars_have_another_template(jvm: KafkaJvm, tmp_path: Path) -> None:
    template(jvm)
    template(jvm._replace(classpath="other.jar"))
    assert calls(tmp_path) == [FORMAT_CLASS, FORMAT_CLASS]


def test_without_a_cache_the_tool_does_it(jvm: KafkaJvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert formatted(jvm, tmp_path / "east")["version"] == "1"
    assert calls(tmp_path) == [FORMAT_CLASS]


def test_values_are_replaced_and_the_rest_is_kept() -> None:
    text = "#\n#Sun Nov 22\nnode.id=1\r\nversion=1\n\n"
    assert with_values(text, {"node.id": "2", "new": "a=b"}) == "node.id=2\nversion=1\nnew=a=b\n"


def test_properties_are_escaped_and_empty_ones_left_out() -> None:
    assert properties_text({"a": "x\\y", "b": "", "c": "1"}) == "a=x\\\\y\nc=1\n"


def test_ids_are_distinct_and_never_look_like_options() -> None:
    ids = [new_kafka_id() for _ in range(2_000)]
    assert len(set(ids)) == len(ids)
    assert {len(kafka_id) for kafka_id in ids} == {22}
    assert not any(kafka_id.startswith("-") for kafka_id in ids)
