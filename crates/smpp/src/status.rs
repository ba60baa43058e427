//! What an SMSC says became of a request.

use rusmpp::CommandStatus;

/// A `command_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u32);

/// What follows from a status that is no success, for the message that was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It is taken.
    Ok,
    /// Too fast, or a queue there is full: slower, and later.
    Throttled,
    /// Not this time.
    Temporary,
    /// The session is not what it should be.
    Session,
    /// Never: something about the message is wrong.
    Permanent,
}

impl Status {
    /// No error.
    pub const OK: Status = Status(0);
    /// The command is not known.
    pub const INVALID_COMMAND: Status = Status(0x03);
    /// Not now; send it again.
    pub const TEMPORARY: Status = Status(0x64);
    /// It is not taken, now or later.
    pub const PERMANENT: Status = Status(0x65);

    /// What follows.
    pub fn meaning(self) -> Meaning {
        use CommandStatus as Is;
        match CommandStatus::from(self.0) {
            Is::EsmeRok => Meaning::Ok,
            Is::EsmeRthrottled | Is::EsmeRmsgqful => Meaning::Throttled,
            Is::EsmeRinvbndsts | Is::EsmeRalybnd | Is::EsmeRbindfail | Is::EsmeRinvcmdid => Meaning::Session,
            Is::EsmeRinvmsglen
            | Is::EsmeRinvcmdlen
            | Is::EsmeRinvprtflg
            | Is::EsmeRinvregdlvflg
            | Is::EsmeRinvsrcadr
            | Is::EsmeRinvdstadr
            | Is::EsmeRinvsertyp
            | Is::EsmeRinvdestflag
            | Is::EsmeRinvesmclass
            | Is::EsmeRinvsrcton
            | Is::EsmeRinvsrcnpi
            | Is::EsmeRinvdstton
            | Is::EsmeRinvdstnpi
            | Is::EsmeRinvrepflag
            | Is::EsmeRinvsched
            | Is::EsmeRinvexpiry
            | Is::EsmeRinvdftmsgid
            | Is::EsmeRxPAppn
            | Is::EsmeRxRAppn
            | Is::EsmeRinvtlvstream
            | Is::EsmeRtlvnotallwd
            | Is::EsmeRinvtlvlen
            | Is::EsmeRmissingtlv
            | Is::EsmeRinvtlvval
            | Is::EsmeRsertypunauth
            | Is::EsmeRprohibited
            | Is::EsmeRsertypdenied
            | Is::EsmeRinvdcs
            | Is::EsmeRinvsrcaddrsubunit
            | Is::EsmeRinvdstaddrsubunit => Meaning::Permanent,
            _ => Meaning::Temporary,
        }
    }
}

/// Its name in the standard, and its number.
impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match CommandStatus::from(self.0) {
            CommandStatus::Other(_) => write!(f, "status 0x{:08x}", self.0),
            CommandStatus::EsmeRxTAppn => write!(f, "ESME_RX_T_APPN (0x64)"),
            CommandStatus::EsmeRxPAppn => write!(f, "ESME_RX_P_APPN (0x65)"),
            CommandStatus::EsmeRxRAppn => write!(f, "ESME_RX_R_APPN (0x66)"),
            known => {
                let name = format!("{known:?}").to_ascii_uppercase();
                write!(f, "ESME_{} (0x{:02x})", name.trim_start_matches("ESME"), self.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_their_names_and_meanings() {
        let said = |status: u32| (Status(status).to_string(), Status(status).meaning());
        assert_eq!(said(0x58), ("ESME_RTHROTTLED (0x58)".into(), Meaning::Throttled));
        assert_eq!(said(0x14), ("ESME_RMSGQFUL (0x14)".into(), Meaning::Throttled));
        assert_eq!(said(0x0b), ("ESME_RINVDSTADR (0x0b)".into(), Meaning::Permanent));
        assert_eq!(said(0x08), ("ESME_RSYSERR (0x08)".into(), Meaning::Temporary));
        assert_eq!(said(0x64), ("ESME_RX_T_APPN (0x64)".into(), Meaning::Temporary));
        assert_eq!(said(0x04), ("ESME_RINVBNDSTS (0x04)".into(), Meaning::Session));
        assert_eq!(said(0x0421), ("status 0x00000421".into(), Meaning::Temporary));
        assert_eq!(said(0), ("ESME_ROK (0x00)".into(), Meaning::Ok));
    }
}
