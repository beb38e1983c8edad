// Documents as the console's server sends them: field names of the protos, enums in lower case. See protos/braid/api.

export interface Row {
  readonly key: string;
}

export interface Channel extends Row {
  name: string;
  stream: string;
  lane: string;
  generation: number;
  cluster: string;
  topic: string;
  partitions: number;
  state: string;
  stranded: boolean;
  weight: number;
  drain_step: string;
  drain_holders: string[];
  state_since_ms: number;
  waits_for: string[];
  lost: unknown[];
  closed: boolean;
  replication_factor: number;
}

export interface Stream extends Row {
  name: string;
  spec: {
    lanes: Record<string, { partitions: number }>;
    clusters: string[];
    replication_factor: number;
    retention_hours: number;
    failover: string;
    ordered: boolean;
    lag_target: Record<string, string>;
  };
  status: { route_revision: number; channels: Channel[]; blocked_reason: string };
  create_time_ms: number;
  tenant: string;
}

export interface Lag extends Row {
  group: string;
  stream: string;
  lane: string;
  cluster: string;
  topic: string;
  partition: number;
  partitions: number;
  lag_records: number;
  lag_seconds: number;
  source: string;
  foreign: boolean;
  stale: boolean;
  as_of_ms: number;
  committed_offset: number;
  commit_time_ms: number;
  end_offset: number;
  unattended: boolean;
  trend_per_s?: number;
  seconds_to_zero?: number;
  split_partitions: number;
  live_lag_seconds: number;
  /** Of a stream's worst lag: how many groups read the stream. */
  groups?: number;
}

/** Which of all groups a view shows, and in which order. */
export interface GroupWindow {
  order: string[];
  first: number;
  matched: number;
  total: number;
  /** Whether all groups and their lag were read once; before that rows are as they came. */
  whole: boolean;
}

export interface Group extends Row {
  name: string;
  spec: { streams: string[]; ownership: string; lease_ms: number; fencing: string };
  status: { members: number; leases: number; free_leases: number; idle_since_ms: number; stopped_lanes: string[]; doubts: string[] };
  rules?: { freeze?: { since_ms: number; reason: string }; warnings: string[]; zones: string };
  scaling?: { desired?: { members: number; reason: string } };
  create_time_ms: number;
  tenant: string;
}

export interface Member extends Row {
  group: string;
  id: string;
  client_id: string;
  zone: string;
  state: string;
  join_time_ms: number;
  leases: number;
  peer: string;
  capacity: number;
  drain: string;
  relative_load?: number;
  stopped: { lane: string; reason: string; since_ms: number }[];
}

export interface Lease extends Row {
  name: string;
  group: string;
  cluster: string;
  topic: string;
  partition: number;
  member: string;
  member_client_id: string;
  epoch: number;
  state: string;
  since_ms: number;
  rule: string;
}

export interface OffsetSpan {
  first: number;
  last: number;
}

/** What of a partition is done, rejected and retried, as the group's newest commit states it. */
export interface Progress {
  committed_offset: number;
  commit_time_ms: number;
  has_envelope: boolean;
  done: readonly OffsetSpan[];
  rejected: readonly OffsetSpan[];
  retried: readonly { offset: number; attempts: number }[];
  partial: boolean;
}

export interface LagStep {
  time_ms: number;
  max_lag_seconds?: number;
  lag_seconds?: number;
  lag_records?: number;
  produced_per_s?: number;
  done_per_s?: number;
  known_seconds: number;
  stale: boolean;
  unknown: boolean;
  estimated: boolean;
}

export interface LagHistory extends Row {
  group: string;
  stream: string;
  lane: string;
  steps: LagStep[];
}

export interface Alert extends Row {
  name: string;
  rule: string;
  severity: string;
  state: string;
  stream: string;
  cluster: string;
  lane: string;
  group: string;
  summary: string;
  remedy: string;
  command: string;
  runbook: string;
  fire_time_ms: number;
  resolve_time_ms: number;
  resolve_reason: string;
  silence?: { reason: string; expire_time_ms: number; created_by: string };
}

/** What a group did about its lag by itself: proposed, in force, or undone. */
export interface LagResponse extends Row {
  group: string;
  kind: string;
  lane: string;
  subject: string;
  state: string;
  before: string;
  after: string;
  reason: string;
  since_ms: number;
}

export interface Outlet extends Row {
  name: string;
  kind: string;
  trouble: string;
  trouble_since_ms: number;
  waiting: number;
}

export interface Evidence {
  looked_ms: number;
  failed: string;
  append_seconds: number;
  usual_append_seconds: number;
  slow_append_seconds: number;
  brokers: number;
  missing_brokers: number[];
  partitions: number;
  gone_partitions: number;
  under_replicated_partitions: number;
  hosts: number;
  hosts_reaching: number;
  hosts_failing: number;
  falls: number;
  no_topics: string;
  denied: string;
  silent_brokers: number[];
}

export interface Cluster extends Row {
  name: string;
  spec: { bootstrap: string; zone: string; capacity: number; security_profile: string };
  status: {
    health: string;
    health_reason: string;
    health_since_ms: number;
    kafka_cluster_id: string;
    cordoned: boolean;
    active_channels: number;
    draining_channels: number;
    verdict: string;
    evidence?: Evidence;
    load?: { measured_ms: number; free_bytes: number; total_bytes: number; bytes_per_s: number; broker: number; unmeasured: string };
    decommission?: { state: string; since_ms: number; reason: string; streams_left: number; blocked: { stream: string; reason: string }[] };
    usual_brokers: number[];
    orphans: number;
  };
  create_time_ms: number;
}

export interface DeadLetter extends Row {
  name: string;
  stream: string;
  cluster: string;
  topic: string;
  partition: number;
  offset: number;
  origin?: { lane: string; cluster: string; topic: string; partition: number; offset: number; timestamp_ms: number; epoch: number; id: string };
  group: string;
  attempts: number;
  first_failure_ms: number;
  last_failure_ms: number;
  error_class: string;
  error_message: string;
  value_bytes: number;
  quarantine: string;
  replays: number;
  replayed_by: string[];
  state: string;
}

export interface LetterContent {
  letter: DeadLetter;
  key_text?: string;
  value_text?: string;
  key?: string;
  value?: string;
  truncated?: boolean;
  headers: { name: string; value: string; value_text?: string }[];
  traceback: string;
}

export interface LetterKind extends Row {
  error_class: string;
  group: string;
  stream: string;
  lane: string;
  count: number;
  first_failure_ms: number;
  last_failure_ms: number;
  parked: number;
  example: string;
}

export interface Replay extends Row {
  id: string;
  spec: { stream: string; filter: string; destination: string; rate_per_s: number; broadcast: boolean };
  status: { state: string; reason: string; matched: number; sent: number; skipped: number; repeated: number; rate_per_s: number; update_time_ms: number; end_time_ms: number };
  create_time_ms: number;
}

export interface MeshEvent extends Row {
  time_ms: number;
  service: string;
  history: string;
  sequence: number;
  type: string;
  actor: string;
  cause: string;
  request_id: string;
  text: string;
  data: unknown;
}

export interface Gap extends Row {
  history: string;
  first: number;
  last: number;
  reason: string;
}

export interface Quantiles {
  p50_ms: number;
  p95_ms: number;
  p99_ms: number;
}

export interface PathwayPoint {
  hash: string;
  parent_hash: string;
  direction: string;
  service: string;
  stream: string;
  group: string;
  full?: Quantiles;
  edge?: Quantiles;
  records_per_s: number;
  report_time_ms: number;
}

export interface Pathway extends Row {
  name: string;
  points: PathwayPoint[];
  partial: boolean;
}

export interface Grant extends Row {
  spec?: { principal: string; role: string; resource: string; expire_time_ms: number; reason: string };
  granted_by: string;
  grant_time_ms: number;
  ended: boolean;
}

export interface Approval extends Row {
  id: string;
  request?: { verbs: string[]; resources: string[]; asked_by: string; letters: number; command: string };
  state: string;
  ask_time_ms: number;
  decided_by: string;
  decide_time_ms: number;
  reason: string;
  left_ms: number;
}

export interface ApprovalPolicy extends Row {
  name: string;
  spec?: { verbs: string[]; resource: string; letters_over: number; reason: string };
  set_by: string;
}

export interface OverviewSummary {
  clusters: number | null;
  clusters_unwell: number | null;
  streams: number | null;
  streams_blocked: number | null;
  moves: number | null;
  groups: number | null;
  free_leases: number | null;
  worst_lag_seconds: number | null;
  lag_stale: number | boolean | null;
  alerts_firing: number | null;
}
