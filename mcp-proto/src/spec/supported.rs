//! The revisions that one side of a connection supports.

use super::{Era, ProtocolVersion};

/// The revisions that one side of a connection supports.
#[derive(Debug, Clone, Default)]
pub(crate) struct SupportedVersions(Vec<ProtocolVersion>);

impl SupportedVersions {
    pub(crate) fn new(versions: &[ProtocolVersion]) -> Self {
        Self(versions.to_vec())
    }

    /// Those that the other side supports too.
    #[must_use]
    pub(crate) fn in_common_with(&self, others: &[ProtocolVersion]) -> Self {
        Self(self.0.iter().copied().filter(|version| others.contains(version)).collect())
    }

    pub(crate) fn contains(&self, version: ProtocolVersion) -> bool {
        self.0.contains(&version)
    }

    /// The newest one that begins with `initialize`.
    pub(crate) fn newest_legacy(&self) -> Option<ProtocolVersion> {
        self.newest(Era::Legacy)
    }

    /// The newest one without a handshake.
    pub(crate) fn newest_modern(&self) -> Option<ProtocolVersion> {
        self.newest(Era::Modern)
    }

    fn newest(&self, era: Era) -> Option<ProtocolVersion> {
        self.0.iter().copied().filter(|version| version.rules().era == era).max()
    }

    /// Whether one of them begins with `initialize`.
    pub(crate) fn has_sessions(&self) -> bool {
        self.newest_legacy().is_some()
    }

    /// Whether one of them is stateless.
    pub(crate) fn has_stateless(&self) -> bool {
        self.newest_modern().is_some()
    }

    /// The era to which all revisions belong; the legacy era if there are no revisions.
    pub(crate) fn only_era(&self) -> Option<Era> {
        let mut eras = self.0.iter().map(|version| version.rules().era);
        let first = eras.next().unwrap_or(Era::Legacy);
        eras.all(|era| era == first).then_some(first)
    }

    pub(crate) fn as_slice(&self) -> &[ProtocolVersion] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use ProtocolVersion as V;

    use super::*;

    #[test]
    fn the_newest_of_each_era_and_the_only_era() {
        let none: &[V] = &[];
        for (versions, legacy, modern, only) in [
            (none, None, None, Some(Era::Legacy)),
            (&[V::V2025_06_18, V::V2024_11_05], Some(V::V2025_06_18), None, Some(Era::Legacy)),
            (&[V::V2026_07_28], None, Some(V::V2026_07_28), Some(Era::Modern)),
            (&[V::V2026_07_28, V::V2025_11_25], Some(V::V2025_11_25), Some(V::V2026_07_28), None),
        ] {
            let supported = SupportedVersions::new(versions);
            assert_eq!((supported.newest_legacy(), supported.newest_modern()), (legacy, modern), "{versions:?}");
            assert_eq!(supported.only_era(), only, "{versions:?}");
        }
    }

    #[test]
    fn what_both_sides_support() {
        let supported = SupportedVersions::new(&[V::V2025_06_18, V::V2026_07_28]);
        let common = supported.in_common_with(&[V::V2026_07_28, V::V2024_11_05]);
        assert_eq!(common.as_slice(), [V::V2026_07_28]);
        assert!(!common.contains(V::V2024_11_05) && common.contains(V::V2026_07_28));
    }
}
