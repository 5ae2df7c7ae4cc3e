//! Converts errors of the sessions of `interleaf extend` to failures with hints.

use interleaf_console::Failure;
use interleaf_pager::session::SessionError;

/// Returns the failure of a session that cannot begin or cannot be read.
pub fn session_failure(why: SessionError) -> Failure {
    let hint = session_hint(&why);
    Failure::new(format!("the session cannot begin: {why}"), hint)
}

/// Returns the remedy for an error of a session.
pub(super) fn session_hint(why: &SessionError) -> &'static str {
    match why {
        SessionError::NotPrivate(_) => "remove it, or name another place in XDG_RUNTIME_DIR",
        SessionError::Differs(_) => {
            "give every part of the session the same --dram, --store, --min-alloc, --children, \
             --shared, --faults and --processes, or another --session"
        }
        SessionError::System { .. } | SessionError::Content { .. } => {
            "its folder is in XDG_RUNTIME_DIR, or else in /run/interleaf of root and in TMPDIR of \
             others"
        }
    }
}
