//! Names of sockets in a pod with the host's network: addresses and ports are the host's.

use super::super::Endpoint;
use super::super::outward;
use super::{State, Tcp};
use abi::request::Transport;
use uapi::{Errno, Result};

impl Tcp {
    /// bind(2). EINVAL, and what the host says.
    pub(super) fn bind_host(&self, to: Endpoint) -> Result<()> {
        let me = self.me.upgrade().ok_or(Errno::EINVAL)?;
        let (number, name) = outward::bind(&self.base, Transport::Tcp, to)?;
        // Another thread may have used the socket while this one waited.
        if self.base.local.get().port != 0 || self.state.get() != State::Close {
            outward::close(number, false);
            return Err(Errno::EINVAL);
        }
        self.bound.set(Some(number));
        self.base.bound_by_host(&me, &self.base.net.tcp, to, name.port);
        Ok(())
    }

    /// Binds it if it is not bound, for listen(2): also to the port that it had before it was connected or listened.
    pub(super) fn bind_again(&self) -> Result<()> {
        let local = self.base.local.get();
        if local.port == 0 {
            return self.bind_host(local);
        }
        if self.bound.get().is_some() {
            return Ok(());
        }
        let (number, _) = outward::bind(&self.base, Transport::Tcp, local)?;
        if self.bound.get().is_some() || self.state.get() != State::Close {
            outward::close(number, false);
            return Err(Errno::EINVAL);
        }
        self.bound.set(Some(number));
        Ok(())
    }

    /// The same for connect(2), if the program chose a name. The host chooses all that was not chosen when it connects.
    pub(super) fn bind_before_connect(&self) -> Result<()> {
        let local = self.base.local.get();
        if local.port == 0 && local.ip.is_unspecified() { Ok(()) } else { self.bind_again() }
    }

    /// It is connected, and has this name on the host.
    pub(super) fn take_name(&self, name: Endpoint) {
        if !self.base.net.is_host() {
            return;
        }
        let had = self.base.local.replace(name);
        if let Some(me) = self.me.upgrade().filter(|_| had.port == 0) {
            self.base.net.tcp.join(name.port, &me);
        }
    }

    /// The socket of the host that is bound for it is closed.
    pub(super) fn release_bound(&self) {
        if let Some(number) = self.bound.take() {
            outward::close(number, false);
        }
    }
}
