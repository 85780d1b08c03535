//! A fuzz input as a source of decisions.

/// The bytes that are not used yet.
pub(crate) struct Script<'d>(pub(crate) &'d [u8]);

impl<'d> Script<'d> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn text(&mut self) -> Option<&'d [u8]> {
        let length = usize::from(self.byte()?).min(self.0.len());
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(text)
    }

    /// One of the choices, selected by the next byte.
    pub(crate) fn pick<C: Copy>(&mut self, choices: &[C]) -> Option<C> {
        choices.get(usize::from(self.byte()?) % choices.len()).copied()
    }
}
