//! Reads `ASCEND_RT_VISIBLE_DEVICES`: the devices of the default block that a program sees, and
//! their numbers.

const NAME: &str = "ASCEND_RT_VISIBLE_DEVICES";

/// The ids of the devices that a program sees, by the number that the program has for each.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Visible(Vec<u32>);

impl Visible {
    /// Reads the value `text` of the variable, for a machine with `devices` devices. All devices
    /// are visible if `text` is `None`. The error names the variable.
    pub(super) fn of(text: Option<&str>, devices: u32) -> Result<Visible, String> {
        let Some(text) = text else { return Ok(Visible((0..devices).collect())) };
        let mut ids = Vec::new();
        for word in text.split(',') {
            let id = word.trim().parse().ok().filter(|id| *id < devices && !ids.contains(id));
            let Some(id) = id else {
                return Err(format!(
                    "{NAME}={text}: different device numbers, separated by commas, are expected, \
                     each below {devices}"
                ));
            };
            ids.push(id);
        }
        Ok(Visible(ids))
    }

    /// Reads the variable from the environment.
    pub(super) fn of_environment(
        variable: impl Fn(&str) -> Option<String>,
        devices: u32,
    ) -> Result<Visible, String> {
        Visible::of(variable(NAME).as_deref(), devices)
    }

    /// Returns the number of visible devices.
    pub(super) fn count(&self) -> u32 {
        self.0.len() as u32
    }

    /// Returns the id of the device with this number.
    pub(super) fn id(&self, number: u32) -> Option<u32> {
        self.0.get(number as usize).copied()
    }

    /// Returns the number of the device with this id.
    pub(super) fn number(&self, id: u32) -> Option<u32> {
        self.0.iter().position(|visible| *visible == id).map(|number| number as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_list_gives_the_numbers() {
        let all = Visible::of(None, 3).unwrap();
        assert_eq!((all.count(), all.id(2), all.number(2)), (3, Some(2), Some(2)));
        let some = Visible::of(Some("5, 1"), 8).unwrap();
        assert_eq!((some.count(), some.id(0), some.id(1), some.id(2)), (2, Some(5), Some(1), None));
        assert_eq!((some.number(1), some.number(5), some.number(0)), (Some(1), Some(0), None));
    }

    #[test]
    fn a_list_that_names_no_device_or_one_twice_is_refused_by_name() {
        for wrong in ["8", "0,0", "", "-1", "0,,1", "all"] {
            let text = Visible::of(Some(wrong), 8).unwrap_err();
            assert!(text.starts_with(&format!("ASCEND_RT_VISIBLE_DEVICES={wrong}: ")), "{text}");
        }
    }
}
