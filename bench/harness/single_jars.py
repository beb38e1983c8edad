"""Jars that benchmarks need beside Kafka's own and Spark's: named one by one, kept in the user's cache, checked.

Each is fetched without its dependencies: they are installed already, and Spark would come a second time.
"""

import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from braid.kernel.errors import Unavailable
from devmesh.limits import TOOL_RESOLVE_SECONDS
from devmesh.toolchain.cache import cache_directory, resolving
from devmesh.toolchain.installing import install_command
from devmesh.toolchain.jars import KAFKA_VERSION, ivy_jar
from devmesh.toolchain.java import java_binary


class SingleJars(NamedTuple):
    """Jars that are fetched without their dependencies.

    Attributes:
        what: What they are, for messages.
        entry: Their directory in the cache.
        coordinates: Group, name and version of each in Maven's repository.
        checksums: The file with the committed sha256 of each.
    """

    what: str
    entry: str
    coordinates: tuple[tuple[str, str, str], ...]
    checksums: Path

    @property
    def versions(self) -> str:
        """Names and versions, for a table."""
        return ", ".join(f"{name} {version}" for _, name, version in self.coordinates)

    def committed(self) -> dict[str, str]:
        """The committed sha256 of each jar, by file name."""
        pairs = (line.split() for line in self.checksums.read_text(encoding="utf-8").splitlines())
        return {name: checksum for checksum, name in pairs}

    def paths(self) -> list[Path]:
        """The jars, resolved first when they are not in the cache.

        Raises:
            Unavailable: there is no resolver, it failed, or a jar does not have its committed checksum.
        """
        directory = cache_directory() / self.entry
        with resolving(self.entry) as work:
            if not directory.exists():
                jars = work / "jars"
                self._run(self._command(work, jars))
                self.check(jars)
                jars.rename(directory)
        self.check(directory)
        return sorted(directory.iterdir())

    def check(self, directory: Path, wanted: Mapping[str, str] | None = None) -> None:
        """Raises `Unavailable` unless a directory holds exactly the wanted jars (default: the committed ones)."""
        wanted = self.committed() if wanted is None else wanted
        found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.glob("*")}
        for name in sorted(found.keys() | wanted.keys()):
            if found.get(name) != wanted.get(name):
                raise Unavailable(
                    f"{directory / name} has sha256 {found.get(name)}, "
                    f"but {self.checksums.name} says {wanted.get(name)}",
                    remedy=f"remove {directory}, and see which repository the resolver is configured for",
                )

    def maven_command(self, mvn: str, work: Path, jars: Path) -> list[str]:
        """Writes a project that needs the jars without their dependencies; returns the command that copies them."""
        alone = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
        dependencies = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>{alone}"
            "</dependency>"
            for group, name, version in self.coordinates
        )
        project = work / "pom.xml"
        project.write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            f"<groupId>braid</groupId><artifactId>{self.entry}</artifactId><version>1</version>"
            f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>",
            encoding="utf-8",
        )
        return [
            *(mvn, "--batch-mode", "--quiet", "--file", str(project), "dependency:copy-dependencies"),
            *("-DincludeScope=runtime", f"-DoutputDirectory={jars}"),
        ]

    def ivy_command(self, ivy: Path, work: Path, jars: Path) -> list[str]:
        """The same with Ivy."""
        dependencies = "".join(
            f'<dependency org="{group}" name="{name}" rev="{version}" conf="default->master" transitive="false"/>'
            for group, name, version in self.coordinates
        )
        module = work / "ivy.xml"
        module.write_text(
            f'<ivy-module version="2.0"><info organisation="braid" module="{self.entry}"/>'
            '<configurations><conf name="default"/></configurations>'
            f"<dependencies>{dependencies}</dependencies></ivy-module>",
            encoding="utf-8",
        )
        return [
            *(str(java_binary()), "-jar", str(ivy), "-cache", str(work / "ivy"), "-ivy", str(module)),
            *("-types", "jar", "bundle", "-retrieve", f"{jars}/[artifact]-[revision].[ext]"),
        ]

    def _command(self, work: Path, jars: Path) -> list[str]:
        ivy = ivy_jar()
        if mvn := shutil.which("mvn"):
            return self.maven_command(mvn, work, jars)
        if ivy is None:
            raise Unavailable(f"{self.what} cannot be resolved without `mvn`", remedy=install_command("mvn"))
        return self.ivy_command(ivy, work, jars)

    def _run(self, command: list[str]) -> None:
        tool = Path(command[0]).name
        try:
            ran = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TOOL_RESOLVE_SECONDS,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"`{tool}` did not resolve {self.what} in {error.timeout:.0f} s") from error
        if ran.returncode:
            tail = "\n".join(ran.stdout.splitlines()[-12:])
            raise Unavailable(f"`{tool}` could not resolve {self.what} (exit code {ran.returncode}):\n{tail}")


# Connector 4.2.0 is the newest release and runs in Spark 4.3. It loads its token provider, of 4.0.0, even without a
# login.
SPARK_KAFKA: Final = SingleJars(
    "Spark's Kafka source",
    "spark-kafka-4.2.0",
    (
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        ("org.apache.kafka", "kafka-clients", "3.9.1"),
        ("org.apache.commons", "commons-pool2", "2.12.0"),
    ),
    Path(__file__).with_name("spark-kafka.sha256"),
)
# Kafka's commands, which its broker does not need.
KAFKA_TOOLS: Final = SingleJars(
    "Kafka's commands",
    f"kafka-tools-{KAFKA_VERSION}",
    (("org.apache.kafka", "kafka-tools", KAFKA_VERSION),),
    Path(__file__).with_name("kafka-tools.sha256"),
)
