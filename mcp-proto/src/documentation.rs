//! Further pages of the documentation.

pub mod guarantees {
    //! What holds whatever a peer sends and the application calls.
    //!
    //! `SECURITY.md` of the repository states it in full, and `docs/assurance.md` how it is tested. In this crate, these types have
    //! it:
    //!
    //! | guarantee | where |
    //! |---|---|
    //! | one outcome for each request, and the right one | one event with an [`Outcome`](client::Outcome); [`Failed`] if there is no answer |
    //! | payloads that are unchanged | [`Json`], which is text that was validated |
    //! | bounds | [`Limits`], whose documentation states the sums |
    //! | no panics | [`UsageError`], after which nothing has changed |
    //! | no secrets in texts | the `Display` forms of errors and faults, and all `Debug` forms; the message of an [`ErrorObject`] is an excerpt of the peer's, its data is payload |

    use crate::{ErrorObject, Failed, Json, Limits, UsageError, client};
}

pub mod ids {
    //! What the ids of rules in this documentation mean.
    //!
    //! A last line `Rules: SH-C-01, HT6.` names the rules that an item implements: `SH-C-01` is a rule of the specification, `HT6` a
    //! row of the catalogue of bad input, and `RULES 8.2` a section. `docs/rules.md` of the repository explains each, and the names of the
    //! tests begin with them.
}
