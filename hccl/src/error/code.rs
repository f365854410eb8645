//! The codes that CANN returns, and their names.

use super::names;

/// A code that CANN returned. `Display` writes its name and its number.
///
/// ```
/// use hccl::error::Code;
///
/// let code = Code::Acl(107002);
/// assert_eq!(code.name(), Some("ACL_ERROR_RT_CONTEXT_NULL"));
///
/// /// Returns the code with which CANN refused a call, if CANN refused it.
/// fn code_of(error: &hccl::Error) -> Option<Code> {
///     error.code()
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// An AscendCL code (`aclError`).
    Acl(i32),
    /// An HCCL or HCOMM code (`HcclResult`).
    Hccl(u32),
}

impl Code {
    /// Returns CANN's name for the code, for example `ACL_ERROR_RT_CONTEXT_NULL` or
    /// `HCCL_E_TIMEOUT`. Returns `None` if the code is not known.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Code::Acl(code) => names::acl(code),
            Code::Hccl(code) => names::hccl(code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_its_name() {
        assert_eq!(Code::Acl(107002).to_string(), "ACL_ERROR_RT_CONTEXT_NULL (107002)");
        assert_eq!(Code::Hccl(9).to_string(), "HCCL_E_TIMEOUT (9)");
        assert_eq!(Code::Acl(1).to_string(), "unknown code 1");
    }
}
