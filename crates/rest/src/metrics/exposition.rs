//! Collects the metric families of `/metrics`.

use std::{fmt, sync::Arc, sync::atomic::Ordering::Relaxed};

use mainstay_core::{ids::Epoch, lifecycle::SessionState, message::Method};
use mainstay_gateway::{
    Gateway,
    metrics::{Histogram, HistogramReading, Series, TOOL_ERROR},
    supervisor::{ServerHandle, ServerView},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter},
};

use super::{
    ProcessUsage,
    families::{BYTES, Families, SECONDS, SampleKind, histogram},
};

/// Collects all families for one scrape.
#[derive(Debug)]
pub struct Exposition {
    pub gateway: Arc<Gateway>,
    pub usage: ProcessUsage,
}

/// A server, with its view at the time of the scrape.
struct ServerSnapshot {
    server: Arc<ServerHandle>,
    view: ServerView,
}

/// Reads one value of a server.
type Number = fn(&ServerSnapshot) -> u64;
type Durations = fn(&ServerHandle) -> &Histogram;

/// The values of one series of calls, with its labels. They are read once, so that all samples of a
/// scrape are consistent.
struct Labelled {
    server: String,
    method: Method,
    tool: Arc<str>,
    /// Number of failed calls, by kind of failure.
    errors: Vec<(&'static str, u64)>,
    times: HistogramReading,
    request_bytes: u64,
    response_bytes: u64,
}

impl Labelled {
    fn read(server: &ServerHandle, method: Method, tool: Arc<str>, series: &Series) -> Self {
        // Read errors first: a call is counted after its error, so there are never more errors than
        // calls.
        let failures = series.failures.read();
        let failures = failures.map(|(kind, count)| (kind.code(), count));
        let tool_errors = series.tool_errors.load(Relaxed);
        let tool_errors = (tool_errors > 0).then_some((TOOL_ERROR, tool_errors));
        Self {
            server: server.name.to_string(),
            method,
            tool,
            errors: failures.chain(tool_errors).collect(),
            times: series.duration.read(),
            request_bytes: series.request_bytes.load(Relaxed),
            response_bytes: series.response_bytes.load(Relaxed),
        }
    }

    fn labels(&self) -> [(&str, &str); 3] {
        [
            ("server", &self.server),
            ("method", self.method.name()),
            ("tool", &self.tool),
        ]
    }
}

impl ServerSnapshot {
    fn name(&self) -> &str {
        self.server.name.as_str()
    }

    fn labels(&self) -> [(&str, &str); 1] {
        [("server", self.name())]
    }

    /// Number of attempts to connect after the first one.
    fn retried(&self) -> u64 {
        let Epoch(attempts) = self.view.status.epoch;
        attempts.saturating_sub(1)
    }
}

impl Collector for Exposition {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let servers = self.gateway.registry.servers().into_iter();
        let servers: Vec<ServerSnapshot> = servers
            .map(|server| ServerSnapshot {
                view: server.view(),
                server,
            })
            .collect();
        let mut families = Families(encoder);
        families.encode_calls(&servers, &self.gateway)?;
        families.encode_servers(&servers, &self.usage)?;
        families.encode_journal(&self.gateway)?;
        families.encode_daemon(&self.gateway, &self.usage)
    }
}

impl Families<'_> {
    fn encode_calls(&mut self, servers: &[ServerSnapshot], gateway: &Gateway) -> fmt::Result {
        let all: Vec<Labelled> = servers
            .iter()
            .flat_map(|ServerSnapshot { server, .. }| {
                let all = server.figures.series().into_iter();
                all.map(|(method, tool, series)| Labelled::read(server, method, tool, &series))
            })
            .collect();
        let mut duration = self.family(
            "mainstay_call_duration",
            "From a call's coming to its end",
            Some(&SECONDS),
            MetricType::Histogram,
        )?;
        for call in &all {
            histogram(&mut duration, &call.labels(), &call.times)?;
        }
        self.samples(
            "mainstay_calls",
            "Calls that have ended",
            None,
            SampleKind::Counter,
            all.iter().map(|call| (call.labels(), call.times.count)),
        )?;
        let errors = all.iter().flat_map(|call| {
            let [server, method, tool] = call.labels();
            call.errors
                .iter()
                .map(move |(kind, count)| ([server, method, tool, ("kind", *kind)], *count))
        });
        self.samples(
            "mainstay_call_errors",
            "Calls that have failed, or whose result says so",
            None,
            SampleKind::Counter,
            errors,
        )?;
        let refusal_counts = gateway.calls.refused().read();
        let refusal_counts = refusal_counts.map(|(kind, count)| ([("kind", kind.code())], count));
        self.samples(
            "mainstay_refused_calls",
            "Calls that led to no server",
            None,
            SampleKind::Counter,
            refusal_counts,
        )?;
        for (name, help, value_of) in [
            (
                "mainstay_call_request",
                "Bytes of requests",
                (|call| call.request_bytes) as fn(&Labelled) -> u64,
            ),
            ("mainstay_call_response", "Bytes of answers", |call| {
                call.response_bytes
            }),
        ] {
            let values = all.iter().map(|call| (call.labels(), value_of(call)));
            self.samples(name, help, Some(&BYTES), SampleKind::Counter, values)?;
        }
        Ok(())
    }

    fn encode_servers(&mut self, servers: &[ServerSnapshot], usage: &ProcessUsage) -> fmt::Result {
        let times: [(_, _, Durations); 2] = [
            (
                "mainstay_call_queue",
                "How long calls waited for their server to be there",
                |server| &server.figures.queue,
            ),
            (
                "mainstay_call_upstream",
                "How long servers had calls",
                |server| &server.figures.upstream,
            ),
        ];
        for (name, help, histogram_of) in times {
            let unit = Some(&SECONDS);
            let mut family = self.family(name, help, unit, MetricType::Histogram)?;
            for snapshot in servers {
                histogram(
                    &mut family,
                    &snapshot.labels(),
                    &histogram_of(&snapshot.server).read(),
                )?;
            }
        }
        let gauges: [(_, _, Number); 4] = [
            (
                "mainstay_calls_waiting",
                "Calls that have not been sent",
                |snapshot| snapshot.server.figures.waiting(),
            ),
            (
                "mainstay_calls_in_flight",
                "Calls that their server has",
                |snapshot| snapshot.server.figures.in_flight(),
            ),
            (
                "mainstay_server_up",
                "Whether it is connected",
                |snapshot| u64::from(snapshot.view.state() == SessionState::Connected),
            ),
            (
                "mainstay_server_degraded",
                "Whether it is connected and something is wrong with it",
                |snapshot| u64::from(snapshot.view.is_degraded()),
            ),
        ];
        for (name, help, value_of) in gauges {
            let values = servers
                .iter()
                .map(|snapshot| (snapshot.labels(), value_of(snapshot)));
            self.samples(name, help, None, SampleKind::Gauge, values)?;
        }
        let states = servers.iter().flat_map(|snapshot| {
            let (now, name) = (snapshot.view.state(), snapshot.name());
            SessionState::ALL.map(|state| {
                let labels = [("server", name), ("state", state.as_str())];
                (labels, u64::from(state == now))
            })
        });
        self.samples(
            "mainstay_server_state",
            "1 for the state that it is in",
            None,
            SampleKind::Gauge,
            states,
        )?;
        let counters: [(_, _, Number); 4] = [
            (
                "mainstay_server_reconnects",
                "Shared sessions after the first",
                |snapshot| snapshot.view.sessions.saturating_sub(1),
            ),
            (
                "mainstay_server_retries",
                "Attempts to connect after the first",
                ServerSnapshot::retried,
            ),
            (
                "mainstay_server_merged_notifications",
                "Notifications that said what one that waited said already",
                |snapshot| snapshot.server.log.diagnostics().merged_notifications,
            ),
            (
                "mainstay_server_dropped_notifications",
                "Notifications that came too fast",
                |snapshot| snapshot.server.log.diagnostics().dropped_notifications,
            ),
        ];
        for (name, help, value_of) in counters {
            let values = servers
                .iter()
                .map(|snapshot| (snapshot.labels(), value_of(snapshot)));
            self.samples(name, help, None, SampleKind::Counter, values)?;
        }
        self.encode_processes(servers, usage)
    }

    /// Families that only servers on stdio have.
    fn encode_processes(
        &mut self,
        servers: &[ServerSnapshot],
        usage: &ProcessUsage,
    ) -> fmt::Result {
        let piped = || {
            servers
                .iter()
                .filter(|snapshot| snapshot.server.transport() == "stdio")
        };
        let counters: [(_, _, Number); 2] = [
            (
                "mainstay_server_restarts",
                "Starts of its process for the shared session, after the first",
                ServerSnapshot::retried,
            ),
            (
                "mainstay_server_crashes",
                "Processes that ended by themselves",
                |snapshot| u64::from(snapshot.view.crashes.count),
            ),
        ];
        for (name, help, value_of) in counters {
            let values = piped().map(|snapshot| (snapshot.labels(), value_of(snapshot)));
            self.samples(name, help, None, SampleKind::Counter, values)?;
        }
        let of_trees = |read: fn(&(u64, u64)) -> u64| {
            piped().map(move |snapshot| {
                let value = usage.servers.get(snapshot.name()).map_or(0, read);
                (snapshot.labels(), value)
            })
        };
        self.samples(
            "mainstay_server_processes",
            "Its processes, with everything they started",
            None,
            SampleKind::Gauge,
            of_trees(|(processes, _)| *processes),
        )?;
        self.samples(
            "mainstay_server_memory",
            "Resident memory of its processes",
            Some(&BYTES),
            SampleKind::Gauge,
            of_trees(|(_, memory)| *memory),
        )
    }

    /// Families of the journal and of the trace export. If one is off, its families have no
    /// samples.
    fn encode_journal(&mut self, gateway: &Gateway) -> fmt::Result {
        let journal = gateway.calls.journal();
        let counters = journal.map(|journal| journal.counters());
        for (name, help, value) in [
            (
                "mainstay_journal_records",
                "Calls that are on record",
                counters.map(|counters| counters.recorded),
            ),
            (
                "mainstay_journal_dropped_records",
                "Calls that are not, since too many waited to be written",
                counters.map(|counters| counters.dropped),
            ),
            (
                "mainstay_journal_lost_records",
                "Calls that could not be written",
                counters.map(|counters| counters.lost),
            ),
            (
                "mainstay_journal_dropped_payloads",
                "Arguments and results that are not kept, since too many bytes waited",
                counters.map(|counters| counters.payloads_dropped),
            ),
            (
                "mainstay_journal_dropped_transitions",
                "Changes of servers' statuses that are not in the history",
                counters.map(|counters| counters.transitions_dropped),
            ),
            (
                "mainstay_journal_commits",
                "Transactions of the journal",
                counters.map(|counters| counters.commits),
            ),
        ] {
            self.single(name, help, None, SampleKind::Counter, value)?;
        }
        self.single(
            "mainstay_journal_recording",
            "Whether calls can be put on record",
            None,
            SampleKind::Gauge,
            journal.map(|journal| u64::from(journal.is_recording())),
        )?;
        let depth = journal.map(|journal| journal.depth());
        self.single(
            "mainstay_journal_waiting_calls",
            "Calls that are open or wait to be written",
            None,
            SampleKind::Gauge,
            depth.map(|(calls, _)| calls as u64),
        )?;
        self.single(
            "mainstay_journal_waiting",
            "Bytes of payloads that wait to be written",
            Some(&BYTES),
            SampleKind::Gauge,
            depth.map(|(_, bytes)| bytes as u64),
        )?;
        let tally = gateway.calls.tracer().map(|tracer| &tracer.tally);
        self.single(
            "mainstay_exported_spans",
            "Spans that a collector has taken",
            None,
            SampleKind::Counter,
            tally.map(|tally| tally.exported.load(Relaxed)),
        )?;
        self.single(
            "mainstay_dropped_spans",
            "Spans that no collector took, or that found no room",
            None,
            SampleKind::Counter,
            tally.map(|tally| tally.dropped.load(Relaxed)),
        )
    }

    fn encode_daemon(&mut self, gateway: &Gateway, usage: &ProcessUsage) -> fmt::Result {
        let sessions = gateway.session_count.get() as u64;
        self.single(
            "mainstay_sessions",
            "Clients' sessions",
            None,
            SampleKind::Gauge,
            Some(sessions),
        )?;
        let mut build = self.family("mainstay_build", "What runs", None, MetricType::Info)?;
        build.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])?;
        // Prometheus client libraries use these names in every process.
        let own_usage = usage.own_usage.as_ref();
        self.single(
            "process_resident_memory",
            "Resident memory of Mainstay",
            Some(&BYTES),
            SampleKind::Gauge,
            own_usage.map(|own_usage| own_usage.memory),
        )?;
        self.single(
            "process_open_fds",
            "Open files of Mainstay",
            None,
            SampleKind::Gauge,
            own_usage.map(|own_usage| own_usage.open_files),
        )?;
        let cpu = self.family(
            "process_cpu",
            "User and system time of Mainstay",
            Some(&SECONDS),
            MetricType::Counter,
        )?;
        own_usage.map_or(Ok(()), |own_usage| {
            ConstCounter::new(own_usage.cpu_seconds).encode(cpu)
        })
    }
}
