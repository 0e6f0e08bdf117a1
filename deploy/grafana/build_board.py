"""Writes `board.json`, the board of a cluster, from the rows below: `python deploy/grafana/build_board.py`.

Each row of `ROWS` is a title and its panels; a panel is a title, a unit of Grafana, and expressions with their legends.
The job names are those of `deploy/prometheus/prometheus.yml`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

Panel = tuple[str, str, tuple[tuple[str, str], ...]]


def quantile(share: float, histogram: str, by: str) -> str:
    """Return the expression of a quantile of a histogram, for each value of the label `by`."""
    return f"histogram_quantile({share}, sum by ({by}, le) (rate({histogram}_bucket[$__rate_interval])))"


ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "Is it well?",
        (
            ("Partitions below min.insync.replicas", "none", (("sum(tierfetch_under_min_isr_partitions)", ""),)),
            ("Under-replicated partitions", "none", (("sum(tierfetch_under_replicated_partitions)", ""),)),
            ("Replicas out of service", "none", (("sum(tierfetch_offline_replicas)", ""),)),
            ("Active controllers", "none", (('sum(tierfetch_raft_current_state{state="leader"})', ""),)),
        ),
    ),
    (
        "Cluster",
        (
            (
                "Brokers",
                "none",
                (
                    ("max(tierfetch_controller_active_brokers)", "active"),
                    ("max(tierfetch_controller_fenced_brokers)", "fenced"),
                ),
            ),
            (
                "Partitions",
                "none",
                (
                    ("max(tierfetch_controller_offline_partitions)", "without a leader"),
                    ("max(tierfetch_controller_reassigning_partitions)", "being reassigned"),
                    ("max(tierfetch_controller_preferred_replica_imbalance)", "not led by the preferred replica"),
                ),
            ),
            (
                "Thin replicas",
                "none",
                (
                    ("sum by (instance) (tierfetch_thin_replicas)", "{{instance}}"),
                    ("sum by (instance) (tierfetch_warming_replicas)", "{{instance}} warming"),
                ),
            ),
            (
                "Still to come from the tier",
                "bytes",
                (("tierfetch_warming_bytes_left", "{{instance}}"),),
            ),
        ),
    ),
    (
        "Traffic",
        (
            ("Produced", "Bps", (("rate(tierfetch_produced_bytes_total[$__rate_interval])", "{{instance}}"),)),
            (
                "Records produced",
                "rowsps",
                (("rate(tierfetch_produced_records_total[$__rate_interval])", "{{instance}}"),),
            ),
            ("Sent to consumers", "Bps", (("rate(tierfetch_consumed_bytes_total[$__rate_interval])", "{{instance}}"),)),
            (
                "Sent to followers",
                "Bps",
                (("rate(tierfetch_replicated_bytes_total[$__rate_interval])", "{{instance}}"),),
            ),
        ),
    ),
    (
        "Tier",
        (
            (
                "Waiting to be copied",
                "bytes",
                (("tierfetch_remote_copy_pending_bytes", "{{instance}}"),),
            ),
            (
                "Copied to the tier",
                "Bps",
                (("sum by (instance) (rate(tierfetch_remote_copied_bytes_total[$__rate_interval]))", "{{instance}}"),),
            ),
            (
                "Read from the tier by consumers",
                "Bps",
                (("sum by (instance) (rate(tierfetch_remote_fetched_bytes_total[$__rate_interval]))", "{{instance}}"),),
            ),
            (
                "Errors of the tier",
                "ops",
                (
                    (
                        "sum by (instance, work) (rate(tierfetch_remote_errors_total[$__rate_interval]))",
                        "{{instance}} {{work}}",
                    ),
                    (
                        "sum by (instance) (rate(tierfetch_remote_fetch_errors_total[$__rate_interval]))",
                        "{{instance}} read",
                    ),
                ),
            ),
        ),
    ),
    (
        "Replication",
        (
            ("Replicas by state", "none", (("sum by (state) (tierfetch_replicas)", "{{state}}"),)),
            (
                "Received by followers",
                "Bps",
                (
                    (
                        "sum by (instance, source) (rate(tierfetch_replica_fetch_bytes_total[$__rate_interval]))",
                        "{{instance}} from {{source}}",
                    ),
                ),
            ),
            ("Leaderships", "none", (("tierfetch_leaders", "{{instance}}"),)),
            (
                "Appended",
                "rowsps",
                (
                    (
                        "sum by (topic) (rate(tierfetch_log_end_offset[$__rate_interval]) * tierfetch_is_leader)",
                        "{{topic}}",
                    ),
                ),
            ),
        ),
    ),
    (
        "Disks",
        (
            (
                "Room on each log directory",
                "bytes",
                (("tierfetch_log_dir_usable_bytes", "{{instance}} {{directory}}"),),
            ),
            ("Size of local logs", "bytes", (("sum by (topic) (tierfetch_log_size_bytes)", "{{topic}}"),)),
            ("Calls to the disk that wait or run", "none", (("tierfetch_disk_queue_depth", "{{instance}}"),)),
            (
                "Failed logs",
                "none",
                (("increase(tierfetch_log_failures_total[$__rate_interval])", "{{instance}}"),),
            ),
        ),
    ),
    (
        "Requests",
        (
            (
                "Requests",
                "reqps",
                (("sum by (api) (rate(tierfetch_request_seconds_count[$__rate_interval]))", "{{api}}"),),
            ),
            (
                "Time in the handler, p99",
                "s",
                (
                    (
                        quantile(0.99, "tierfetch_request_seconds", "api"),
                        "{{api}}",
                    ),
                ),
            ),
            ("Connections", "none", (("tierfetch_connections", "{{instance}}"),)),
            (
                "Memory of requests",
                "bytes",
                (("tierfetch_request_memory_bytes", "{{instance}}"),),
            ),
        ),
    ),
    (
        "Process",
        (
            (
                "Pauses of the event loop, p99.9",
                "s",
                (
                    (
                        quantile(0.999, "tierfetch_loop_pause_seconds", "instance"),
                        "{{instance}}",
                    ),
                ),
            ),
            ("CPU", "percentunit", (("rate(process_cpu_seconds_total[$__rate_interval])", "{{instance}}"),)),
            ("Memory", "bytes", (("process_resident_memory_bytes", "{{instance}}"),)),
            ("Open files", "none", (("process_open_fds", "{{instance}}"),)),
        ),
    ),
    (
        "Quorum",
        (
            ("Epoch", "none", (("tierfetch_raft_current_epoch", "{{instance}}"),)),
            ("High watermark of the metadata", "none", (("tierfetch_raft_high_watermark", "{{instance}}"),)),
            (
                "Commit latency, p99",
                "s",
                (
                    (
                        quantile(0.99, "tierfetch_raft_commit_latency_seconds", "instance"),
                        "{{instance}}",
                    ),
                ),
            ),
            ("Elections", "none", (("increase(tierfetch_raft_elections_total[$__rate_interval])", "{{instance}}"),)),
        ),
    ),
)
ALARMS: Final = frozenset(("Is it well?",))
"""Rows of single numbers, red where they are not as they should be."""


def board() -> dict[str, object]:
    """Return the board as Grafana imports it."""
    return {
        "uid": "tierfetch",
        "title": "tierfetch",
        "tags": ["kafka", "tierfetch"],
        "timezone": "browser",
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]
        },
        "panels": list(_panels()),
    }


def _panels() -> Iterator[dict[str, object]]:
    y = number = 0
    for title, panels in ROWS:
        number += 1
        yield {"id": number, "type": "row", "title": title, "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}, "panels": []}
        height = 4 if title in ALARMS else 8
        for column, panel in enumerate(panels):
            number += 1
            place = {"x": 6 * column, "y": y + 1, "w": 6, "h": height}
            yield {"id": number, "gridPos": place, **_panel(panel, is_alarm=title in ALARMS)}
        y += 1 + height


def _panel(panel: Panel, *, is_alarm: bool) -> dict[str, object]:
    title, unit, queries = panel
    defaults: dict[str, object] = {"unit": unit, "min": 0}
    if is_alarm:
        good_is_one = title == "Active controllers"
        steps = [("red", None), ("green", 1)] if good_is_one else [("green", None), ("red", 1)]
        defaults["thresholds"] = {"mode": "absolute", "steps": [{"color": color, "value": at} for color, at in steps]}
    return {
        "type": "stat" if is_alarm else "timeseries",
        "title": title,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "expr": expression, "legendFormat": legend}
            for number, (expression, legend) in enumerate(queries)
        ],
    }


def main() -> None:
    Path(__file__).with_name("board.json").write_text(text())


def text() -> str:
    return json.dumps(board(), indent=1) + "\n"


if __name__ == "__main__":
    main()
