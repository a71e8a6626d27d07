//! `framewire bulk`: files over QUIC under our congestion controllers.

pub mod args;
mod paper;
mod receive;
mod send;
mod table;

use args::Bulk;
use real::transfer::TransferError;

use crate::failure::Failure;

/// Does what was asked for.
pub fn bulk(args: &Bulk) -> Result<(), Failure> {
    match args {
        Bulk::Send(args) => send::send(args),
        Bulk::Receive(args) => receive::receive(args),
        Bulk::Table(args) => table::table(args),
    }
}

fn failed(error: TransferError) -> Failure {
    if error.is_of_input() { Failure::input(error) } else { Failure::work(error) }
}
