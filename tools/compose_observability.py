"""The profile `observability` of compose.yaml: Prometheus, Grafana and an OpenTelemetry Collector, as values. Pure.

Prometheus scrapes the services and the collector. Applications send to the collector by OTLP.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

from devmesh import blueprint

Value = str | int | float | bool | Sequence["Value"] | Mapping[str, "Value"]
Service = dict[str, Value]

PROFILE: Final = "observability"
PROMETHEUS_IMAGE: Final = "prom/prometheus:v3.13.5"
GRAFANA_IMAGE: Final = "grafana/grafana:12.3.1"
COLLECTOR_IMAGE: Final = "otel/opentelemetry-collector-contrib:0.165.1"
PROMETHEUS: Final = 9090
GRAFANA: Final = 3000
OTLP_GRPC: Final = 4317
OTLP_HTTP: Final = 4318
COLLECTED: Final = 9464  # where the collector serves applications' metrics to Prometheus, inside alone
PORTS: Final = (PROMETHEUS, GRAFANA, OTLP_GRPC, OTLP_HTTP)
VOLUMES: Final = ("prometheus", "grafana")
HOME: Final = "/var/lib/observability"  # of the volumes in our image, whose user owns them
CONFIG: Final = "/etc/prometheus/braid"
RETENTION: Final = "15d"
_ENDED: Final = {"condition": "service_completed_successfully"}
_LOCAL: Final = "127.0.0.1"


class _Dumper(yaml.SafeDumper):
    """Repeats equal values, for people who read one part of a file."""

    def ignore_aliases(self, data: object) -> bool:
        """Writes no aliases."""
        return True


def services(shut: Service, net: Mapping[str, Value], user: str, shown: str, health: Service) -> dict[str, Service]:
    """The services of the profile, by name.

    Args:
        shut: Restrictions of every container.
        net: What every container starts after: the network.
        user: Whom they run as.
        shown: The mount of certificates.
        health: When a health check is made, and how long it may take.
    """
    common: Service = {
        **shut,
        "user": user,
        "network_mode": "service:net",
        "profiles": [PROFILE],
        "restart": "unless-stopped",
        "stop_grace_period": "10s",
    }
    return {
        "collector": _collector_service(common, net),
        "prometheus": _prometheus_service(common, net, shown, health),
        "grafana": _grafana_service(common, net, health),
    }


def _collector_service(common: Service, net: Mapping[str, Value]) -> Service:
    return {
        "image": COLLECTOR_IMAGE,
        **common,
        "command": ["--config=/etc/otelcol/braid.yml"],
        "depends_on": dict(net),
        "volumes": ["./deploy/collector/braid.yml:/etc/otelcol/braid.yml:ro"],
        "healthcheck": {"disable": True},  # the image has no program that could ask
    }


def _prometheus_service(common: Service, net: Mapping[str, Value], shown: str, health: Service) -> Service:
    return {
        "image": PROMETHEUS_IMAGE,
        **common,
        "command": prometheus_command("prometheus.yml"),
        "depends_on": {**net, "certs": _ENDED, "disks": _ENDED},
        "volumes": ["prometheus:/prometheus", f"./deploy/prometheus:{CONFIG}:ro", shown],
        "healthcheck": {
            **health,
            "test": ["CMD", "promtool", "check", "healthy", f"--url=http://{_LOCAL}:{PROMETHEUS}"],
        },
    }


def _grafana_service(common: Service, net: Mapping[str, Value], health: Service) -> Service:
    return {
        "image": GRAFANA_IMAGE,
        **common,
        "environment": {
            "GF_SERVER_HTTP_PORT": str(GRAFANA),
            "GF_AUTH_ANONYMOUS_ENABLED": "true",  # it is published on this machine's loopback alone
            "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
            "GF_AUTH_DISABLE_LOGIN_FORM": "true",
            "GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION": "true",
            "GF_ANALYTICS_REPORTING_ENABLED": "false",
            "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
            "GF_PLUGINS_PREINSTALL_DISABLED": "true",
        },
        "depends_on": {**net, "disks": _ENDED, "prometheus": {"condition": "service_healthy"}},
        "volumes": [
            "grafana:/var/lib/grafana",
            "./deploy/grafana/provisioning:/etc/grafana/provisioning:ro",
            "./deploy/grafana/dashboards:/etc/grafana/dashboards:ro",
        ],
        "healthcheck": {**health, "test": ["CMD", "wget", "-q", "-O", "-", f"http://{_LOCAL}:{GRAFANA}/api/health"]},
    }


def prometheus_command(config: str) -> list[str]:
    """Arguments of Prometheus with one of its two configurations."""
    return [
        f"--config.file={CONFIG}/{config}",
        "--storage.tsdb.path=/prometheus",
        f"--storage.tsdb.retention.time={RETENTION}",
    ]


def files(services_at: Mapping[str, int], ca: Path) -> dict[Path, str]:
    """The files of deploy/ that name ports, by path.

    Args:
        services_at: Ports of the services, by instance.
        ca: Who signs the services' certificates.
    """
    targets = [f"{_LOCAL}:{port + blueprint.METRICS_ABOVE}" for port in services_at.values()]
    secure: Service = {"scheme": "https", "tls_config": {"ca_file": str(ca)}}
    return {
        Path("deploy/prometheus/prometheus.yml"): _text(_scraping(targets, secure)),
        Path("deploy/prometheus/insecure.yml"): _text(_scraping(targets, {})),
        Path("deploy/collector/braid.yml"): _text(_collector()),
        Path("deploy/grafana/provisioning/datasources/prometheus.yml"): _text({
            "apiVersion": 1,
            "datasources": [{
                "name": "Prometheus", "type": "prometheus", "access": "proxy", "isDefault": True,
                "url": f"http://{_LOCAL}:{PROMETHEUS}",
            }],
        }),
        Path("deploy/grafana/provisioning/dashboards/braid.yml"): _text({
            "apiVersion": 1,
            "providers": [{"name": "braid", "folder": "Braid", "type": "file",
                           "options": {"path": "/etc/grafana/dashboards"}}],
        }),
    }  # fmt: skip


def _scraping(targets: Sequence[str], how: Service) -> Service:
    jobs: list[Service] = [
        {"job_name": "braid", **how, "static_configs": [{"targets": list(targets)}]},
        {"job_name": "applications", "honor_labels": True, "static_configs": [{"targets": [f"{_LOCAL}:{COLLECTED}"]}]},
    ]
    return {
        "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
        "rule_files": ["recording.yml"],
        "scrape_configs": jobs,
    }


def _collector() -> Service:
    everywhere = "0.0.0.0"  # of the namespace: published ports arrive at its outer interface
    taken: Service = {"receivers": ["otlp"], "processors": ["memory_limiter", "batch"]}
    return {
        "receivers": {
            "otlp": {
                "protocols": {
                    "grpc": {"endpoint": f"{everywhere}:{OTLP_GRPC}"},
                    "http": {"endpoint": f"{everywhere}:{OTLP_HTTP}"},
                }
            }
        },
        "processors": {
            "memory_limiter": {"check_interval": "1s", "limit_mib": 256, "spike_limit_mib": 64},
            "batch": {"send_batch_size": 4096, "send_batch_max_size": 4096},
        },
        "exporters": {
            "prometheus": {
                "endpoint": f"{_LOCAL}:{COLLECTED}",
                "metric_expiration": "5m",
                "resource_to_telemetry_conversion": {"enabled": False},
            },
            "debug": {"verbosity": "basic"},
        },
        "service": {
            "pipelines": {
                "metrics": {**taken, "exporters": ["prometheus"]},
                "traces": {**taken, "exporters": ["debug"]},
                "logs": {**taken, "exporters": ["debug"]},
            }
        },
    }


def _text(document: Service) -> str:
    """YAML below a line that says who writes it."""
    head = "# Written by `python -m tools.compose write`; changes made here are lost.\n"
    return head + str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=116))
