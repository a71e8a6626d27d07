//! A way to the rest of the internet from inside: address translation by the kernel, set up with `nft` or
//! `iptables` and undone by the guard.

use std::process::{Command, Stdio};

use super::addresses::Block;
use super::error::LinkError;
use super::guard::Guard;

/// Whether the machine passes packets on at all; changing that is its owner's business.
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";

/// Translates what comes from `block` and leaves by another device than `device`.
pub(super) fn translate(block: Block, device: &str, guard: &mut Guard) -> Result<(), LinkError> {
    let forwards = std::fs::read_to_string(FORWARDING).is_ok_and(|text| text.trim() == "1");
    if !forwards {
        let remedy = "this machine does not forward packets; `sysctl -w net.ipv4.ip_forward=1` makes it";
        return Err(LinkError::Nat(remedy.to_owned()));
    }
    let addresses = format!("{}/{}", block.inside(), block.prefix());
    let table = format!("framewire_{}", device.replace('.', "_"));
    with_nft(&table, &addresses, device, guard).or_else(|nft| {
        with_iptables(&addresses, device, guard).map_err(|iptables| {
            LinkError::Nat(format!("neither nft ({nft}) nor iptables ({iptables}) will translate addresses"))
        })
    })
}

fn with_nft(table: &str, addresses: &str, device: &str, guard: &mut Guard) -> Result<(), String> {
    let chain = "{ type nat hook postrouting priority srcnat ; }";
    run(&["nft", "add", "table", "ip", table])?;
    guard.undo_with(&["nft", "delete", "table", "ip", table]).map_err(|error| error.to_string())?;
    run(&["nft", "add", "chain", "ip", table, "out", chain])?;
    let rule = ["ip", "saddr", addresses, "oifname", "!=", device, "masquerade"];
    run(&[&["nft", "add", "rule", "ip", table, "out"], &rule[..]].concat())
}

fn with_iptables(addresses: &str, device: &str, guard: &mut Guard) -> Result<(), String> {
    let rule = |action| {
        let table = ["iptables", "-w", "-t", "nat", action, "POSTROUTING"];
        [&table[..], &["-s", addresses, "!", "-o", device, "-j", "MASQUERADE"]].concat()
    };
    run(&rule("-A"))?;
    guard.undo_with(&rule("-D")).map_err(|error| error.to_string())
}

/// Runs a command that says nothing when all is well.
fn run(words: &[&str]) -> Result<(), String> {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    match output {
        Err(error) => Err(error.to_string()),
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it failed").to_owned())
        }
    }
}
