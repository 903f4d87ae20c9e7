//! Handles the commands to a supervisor: of the operator, of calls, and of configuration changes.

use std::sync::Arc;

use mainstay_core::{
    config::ServerConfig,
    ids::Epoch,
    lifecycle::{Event, SessionReport as LifeReport, SessionState},
};

use super::{Task, catalog_file, policy};
use crate::supervisor::{
    command::{Operation, SupervisorCommand},
    declared::shared_initialize,
    session_key::SessionKey,
};

impl Task {
    pub(super) async fn handle_command(&mut self, command: SupervisorCommand) {
        match command {
            SupervisorCommand::CallWaiting => self.step(SessionKey::Shared, Event::CallWaiting),
            SupervisorCommand::CallAnswered => self.look(SessionKey::Shared),
            SupervisorCommand::RequestProbe(key) => {
                self.report_traffic(key);
                if let Some(epoch) = self.managed(key).map(|managed| managed.epoch()) {
                    self.step(key, Event::Io(epoch, LifeReport::Doubted));
                }
            }
            SupervisorCommand::Resumed => {
                self.step(SessionKey::Shared, Event::Resumed);
                for id in self.isolated_sessions.ids() {
                    self.step(SessionKey::Isolated(id), Event::Resumed);
                }
            }
            SupervisorCommand::Operate(operation, reply) => {
                let epoch = self.operate(operation).await;
                // The caller may have gone.
                reply.send(epoch).ok();
            }
            SupervisorCommand::Configure(config) => self.configure(config).await,
            SupervisorCommand::OpenIsolated(open) => self.open_isolated(open),
            // `close_released` below runs after every command.
            SupervisorCommand::ReleaseIsolated => {}
            SupervisorCommand::End => {
                self.ending = true;
                self.stop_all();
            }
        }
        self.close_released();
    }

    /// Carries out an operator's command. Returns the epoch of the attempt to wait for.
    async fn operate(&mut self, operation: Operation) -> Epoch {
        // The server may have been disabled while the command was queued.
        if operation != Operation::Stop && !self.config.enabled {
            return self.shared.status().epoch.next();
        }
        self.stopped = operation == Operation::Stop;
        let event = match operation {
            Operation::Start => Event::Start,
            Operation::Reconnect => {
                self.close_all_isolated();
                Event::Reconnect
            }
            Operation::Stop => {
                self.close_all_isolated();
                Event::Stop
            }
        };
        if operation != Operation::Stop {
            self.allow_all();
        }
        if operation == Operation::Start {
            self.avoid_probe(false);
            self.eras.first = self.view.borrow().eras.first();
        }
        self.set_wanted(operation != Operation::Stop);
        self.step(SessionKey::Shared, event);
        self.report_catalog(Vec::new()).await;
        let status = self.shared.status();
        if status.attempting || status.state == SessionState::Connected {
            status.epoch
        } else {
            status.epoch.next()
        }
    }

    async fn configure(&mut self, config: Arc<ServerConfig>) {
        let before = Arc::clone(&self.config);
        let formerly = std::mem::replace(&mut self.configured, Arc::clone(&config));
        self.config = if config.reads_files && formerly.launch == config.launch {
            // Keep the values that an attempt has read from the entry's files since.
            Arc::new(config.refreshed((*before).clone()))
        } else {
            config
        };
        if !Arc::ptr_eq(&self.config, &self.configured) {
            self.log.protect_both(&self.config, Some(&self.configured));
            self.stored.store(Arc::clone(&self.config));
        }
        self.lists.catalog_file = catalog_file(&self.fleet, &self.config);
        self.shared.policy = policy(&self.config);
        // The next session uses it.
        self.shared.initialize = shared_initialize(&self.config, &self.fleet);
        let relaunch = before.is_reached_otherwise(&self.config);
        if relaunch {
            self.view.send_modify(|view| view.last_transport = None);
            self.allow_all();
            self.forget_eras(before.launch == self.config.launch);
            self.close_all_isolated();
        }
        if !self.config.enabled {
            self.set_wanted(false);
            self.close_all_isolated();
            self.step(SessionKey::Shared, Event::Stop);
        } else if !before.connects_at_start() && self.config.connects_at_start() {
            self.stopped = false;
            self.set_wanted(true);
            self.step(SessionKey::Shared, Event::Start);
        } else if relaunch && self.view.borrow().is_desired_up {
            self.step(SessionKey::Shared, Event::Reconnect);
        } else {
            self.publish();
        }
        self.report_catalog(Vec::new()).await;
    }

    /// Applies a configuration in which an attempt found other values in the entry's files.
    pub(super) fn handle_refreshed(&mut self, before: &Arc<ServerConfig>, refreshed: ServerConfig) {
        // Ignore it if another configuration has come into force since. The next attempt reads the
        // files again.
        if Arc::ptr_eq(before, &self.config) {
            tracing::info!(server = %self.config.name, "the files that its entry names have other values now");
            self.config = Arc::new(refreshed);
            self.stored.store(Arc::clone(&self.config));
        }
    }

    fn set_wanted(&self, is_wanted: bool) {
        self.view.send_modify(|view| view.is_desired_up = is_wanted);
    }

    fn stop_all(&mut self) {
        self.step(SessionKey::Shared, Event::Stop);
        self.close_all_isolated();
    }
}
