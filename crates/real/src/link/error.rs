//! Why a link's namespace can't be had, and what to do about it.

use std::io;

/// Why a link can't be set up or run. Each prints as one line.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No TUN device at all.
    #[error(
        "this machine has no TUN device ({0}): `modprobe tun`, or a container's `--device /dev/net/tun`; without it, \
         `framewire relay` emulates a link for one UDP conversation"
    )]
    NoTun(io::Error),
    /// Not enough rights.
    #[error(
        "no right to {what}, which takes CAP_NET_ADMIN and CAP_SYS_ADMIN: run it as root, or behind `unshare --user \
         --map-root-user --net`, where servers must run too; `framewire relay` needs no rights"
    )]
    Rights {
        /// What was refused.
        what: &'static str,
    },
    /// The kernel can't do it.
    #[error("this kernel has no network namespaces (CONFIG_NET_NS); `framewire relay` needs none")]
    NoNamespaces,
    /// Links stand too deep inside, or too many beside each other.
    #[error("no addresses are left here: links nest five deep, with seven beside each other inside one")]
    NoBlock,
    /// Address translation can't be had.
    #[error("--nat: {0}")]
    Nat(String),
    /// The command can't be started.
    #[error("cannot run `{command}`: {source}")]
    Command {
        /// What was to be run.
        command: String,
        /// Why not.
        source: io::Error,
    },
    /// Anything else.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl LinkError {
    /// What `source` means when `what` was tried.
    pub(crate) fn new(what: &'static str, source: io::Error) -> LinkError {
        match source.kind() {
            io::ErrorKind::PermissionDenied => LinkError::Rights { what },
            _ => LinkError::System { what, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_take_one_line_and_name_the_remedy() {
        let rights =
            LinkError::new("make a TUN device", io::Error::from_raw_os_error(libc::EPERM)).to_string();
        assert!(
            rights.starts_with("no right to make a TUN device") && rights.contains("as root"),
            "{rights}"
        );
        let missing = LinkError::NoTun(io::Error::from_raw_os_error(libc::ENOENT)).to_string();
        assert!(missing.contains("modprobe tun") && missing.contains("framewire relay"), "{missing}");
        assert!(!rights.contains('\n') && !missing.contains('\n'));
    }
}
