"""Jars of Spark's Kafka source and of Kafka's commands: named one by one, only with their committed checksums."""

import hashlib
import re
from pathlib import Path

import pytest

from bench.harness.single_jars import KAFKA_TOOLS, SPARK_KAFKA, SingleJars
from braid.kernel.errors import Unavailable

CONTENT = b"a jar"
WANTED = {"one.jar": hashlib.sha256(CONTENT).hexdigest()}
BOTH = pytest.mark.parametrize("jars", [SPARK_KAFKA, KAFKA_TOOLS], ids=lambda jars: jars.entry)


@BOTH
def test_each_jar_has_its_committed_checksum(jars: SingleJars) -> None:
    assert sorted(jars.committed()) == sorted(f"{name}-{version}.jar" for _, name, version in jars.coordinates)
    assert all(re.fullmatch("[0-9a-f]{64}", checksum) for checksum in jars.committed().values())


@BOTH
def test_both_resolvers_are_asked_for_these_jars_alone(jars: SingleJars, tmp_path: Path) -> None:
    jars.maven_command("mvn", tmp_path, tmp_path / "jars")
    jars.ivy_command(tmp_path / "ivy.jar", tmp_path, tmp_path / "jars")
    project, module = (tmp_path / "pom.xml").read_text(), (tmp_path / "ivy.xml").read_text()
    assert project.count("<artifactId>*</artifactId>") == module.count('transitive="false"') == len(jars.coordinates)
    for group, name, version in jars.coordinates:
        assert f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>" in project
        assert f'org="{group}" name="{name}" rev="{version}"' in module


def test_exactly_the_wanted_jars_pass(tmp_path: Path) -> None:
    (tmp_path / "one.jar").write_bytes(CONTENT)
    SPARK_KAFKA.check(tmp_path, WANTED)


@pytest.mark.parametrize(
    "found", [{}, {"one.jar": b"another"}, {"one.jar": CONTENT, "two.jar": CONTENT}], ids=["missing", "other", "extra"]
)
def test_missing_other_and_further_jars_are_refused(found: dict[str, bytes], tmp_path: Path) -> None:
    for name, content in found.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(Unavailable, match=r"(one|two)\.jar has sha256"):
        SPARK_KAFKA.check(tmp_path, WANTED)
