//! How many messages a receiver may be sent: the server is told in bulk, so that it is not asked for each one.

/// Messages that one connection expects, at most.
pub const WINDOW: u32 = 64;
/// So many are asked for at once.
const AT_ONCE: u32 = WINDOW / 2;

/// What one connection expects and has told the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// Expected, and not asked for yet.
    untold: u32,
}

impl Window {
    /// One more message is expected. How many the server is to be asked for now.
    pub fn expect_one(&mut self) -> Option<u32> {
        self.untold += 1;
        if self.untold >= AT_ONCE { self.tell() } else { None }
    }

    /// No more is expected after what was. How many the server is to be asked for.
    pub fn tell(&mut self) -> Option<u32> {
        let untold = std::mem::take(&mut self.untold);
        (untold > 0).then_some(untold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_window_is_asked_for_at_once_and_the_rest_in_the_end() {
        let mut window = Window::default();
        let told: Vec<u32> = (0..WINDOW + 3).filter_map(|_| window.expect_one()).collect();
        assert_eq!(told, [AT_ONCE, AT_ONCE]);
        assert_eq!((window.tell(), window.tell()), (Some(3), None));
    }
}
