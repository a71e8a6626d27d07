//! The crate `goog_cc`, driven as libwebrtc's call drives its original.

use goog_cc::network_control::{NetworkControllerConfig, NetworkControllerInterface};
use goog_cc::transport::{
    NetworkControlUpdate, PacketResult, ProcessInterval, RoundTripTimeUpdate, SentPacket,
    TargetRateConstraints, TransportLossReport, TransportPacketsFeedback,
};
use goog_cc::units::{DataRate, DataSize, TimeDelta, Timestamp};
use goog_cc::{GoogCcConfig, GoogCcNetworkController, experiments::FieldTrials};
use units::{Span, Time};

use crate::{Estimator, Feedback, Packet};

/// Receivers report losses this often (libwebrtc's RTCP interval for video).
const LOSS_REPORTS: Span = Span::from_secs(1);

/// The controller.
pub struct Theirs {
    controller: GoogCcNetworkController,
    target: f64,
    reported: Time,
    arrived: u64,
    lost: u64,
}

fn timestamp(at: Time) -> Timestamp {
    Timestamp::from_micros(at.as_micros() as i64)
}

fn sent(packet: &Packet, in_flight: u64) -> SentPacket {
    SentPacket {
        send_time: timestamp(packet.sent),
        size: DataSize::from_bytes(i64::from(packet.size)),
        sequence_number: packet.number as i64,
        data_in_flight: DataSize::from_bytes(in_flight as i64),
        ..SentPacket::default()
    }
}

impl Theirs {
    /// Starts at `start` bit/s. `robust`: measures throughput as its revision does by default (all that
    /// arrived within a second); else as ours and earlier revisions do (samples of 150 ms).
    pub fn new(start: f64, robust: bool) -> Theirs {
        let mut field_trials = FieldTrials::default();
        field_trials.robust_throughput_estimator_settings.enabled = robust;
        let constraints = TargetRateConstraints {
            at_time: timestamp(Time::ZERO),
            min_data_rate: Some(DataRate::from_kilobits_per_sec(100)),
            max_data_rate: Some(DataRate::from_kilobits_per_sec(100_000)),
            starting_rate: Some(DataRate::from_bits_per_sec_float(start)),
        };
        let config = NetworkControllerConfig { field_trials, constraints, ..Default::default() };
        let controller = GoogCcNetworkController::new(config, GoogCcConfig { feedback_only: false });
        Theirs { controller, target: start, reported: Time::ZERO, arrived: 0, lost: 0 }
    }

    fn take(&mut self, update: &NetworkControlUpdate) {
        if let Some(target) = &update.target_rate {
            self.target = target.target_rate.bps() as f64;
        }
    }

    fn report_losses(&mut self, now: Time) {
        let report = TransportLossReport {
            receive_time: timestamp(now),
            start_time: timestamp(self.reported),
            end_time: timestamp(now),
            packets_lost_delta: self.lost,
            packets_received_delta: self.arrived,
        };
        let update = self.controller.on_transport_loss_report(report);
        self.take(&update);
        (self.reported, self.arrived, self.lost) = (now, 0, 0);
    }
}

impl Estimator for Theirs {
    fn on_sent(&mut self, packet: &Packet, in_flight: u64) {
        let update = self.controller.on_sent_packet(sent(packet, in_flight));
        self.take(&update);
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        let result = |packet: &Packet| PacketResult {
            sent_packet: sent(packet, 0),
            receive_time: packet.arrived.map_or(Timestamp::plus_infinity(), timestamp),
            ..PacketResult::default()
        };
        let update = self.controller.on_round_trip_time_update(RoundTripTimeUpdate {
            receive_time: timestamp(feedback.at),
            round_trip_time: TimeDelta::from_micros(feedback.srtt.as_micros()),
            smoothed: false,
        });
        self.take(&update);
        let arrived = feedback.packets.iter().filter(|packet| packet.arrived.is_some()).count() as u64;
        self.arrived += arrived;
        self.lost += feedback.packets.len() as u64 - arrived;
        if feedback.at - self.reported >= LOSS_REPORTS {
            self.report_losses(feedback.at);
        }
        let update = self.controller.on_transport_packets_feedback(TransportPacketsFeedback {
            feedback_time: timestamp(feedback.at),
            data_in_flight: DataSize::from_bytes(feedback.in_flight as i64),
            packet_feedbacks: feedback.packets.iter().map(result).collect(),
            sendless_arrival_times: Vec::new(),
        });
        self.take(&update);
    }

    fn on_tick(&mut self, now: Time) {
        let process = ProcessInterval { at_time: timestamp(now), pacer_queue: None };
        let update = self.controller.on_process_interval(process);
        self.take(&update);
    }

    fn target(&self) -> f64 {
        self.target
    }
}
