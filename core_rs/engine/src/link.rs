//! The link between prefill and decode replicas: one line, first come first served.

use crate::spec::LinkSpec;

/// When transfers are through.
#[derive(Debug, Default)]
pub struct Link {
    spec: Option<LinkSpec>,
    free_ns: u64,
}

impl Link {
    pub fn new(spec: Option<LinkSpec>) -> Self {
        Self { spec, free_ns: 0 }
    }

    /// `bytes` are handed over from `now` on, after those before them; when they have arrived.
    pub fn deliver(&mut self, now: u64, bytes: f64) -> u64 {
        let Some(link) = self.spec else { return now };
        let takes = (bytes / link.bytes_per_s * 1e9 + 0.5).floor() as u64;
        self.free_ns = self.free_ns.max(now).saturating_add(takes);
        self.free_ns.saturating_add(link.latency_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case C45: 8192 tokens of 327,680 bytes over 50 GB/s take 53.7 ms; two at a time wait for one another.
    #[test]
    fn transfers_queue() {
        let mut link = Link::new(Some(LinkSpec { bytes_per_s: 50e9, latency_ns: 1_000 }));
        let bytes = 8192.0 * 327_680.0;
        assert_eq!(link.deliver(400_000_000, bytes), 400_000_000 + 53_687_091 + 1_000);
        assert_eq!(link.deliver(400_000_000, bytes), 400_000_000 + 2 * 53_687_091 + 1_000);
        assert_eq!(Link::new(None).deliver(7, bytes), 7);
    }
}
