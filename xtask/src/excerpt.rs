//! The failure messages of a failed check, repeated at the end of the run: of a log of some thousand lines often only
//! the last ones are shown.

use std::collections::VecDeque;

/// Maximum number of lines kept of one check.
const MOST: usize = 120;
/// Lines kept of a check without a named failed test, such as a build.
const LAST: usize = 40;

/// Follows the lines of one check.
#[derive(Default)]
pub struct Excerpt {
    /// Lines between `failures:` and `test result:`, and those that name a failed test.
    failures: Vec<String>,
    last: VecDeque<String>,
    in_failures: bool,
}

impl Excerpt {
    /// Adds the next line of the check's output, without its newline.
    pub fn line(&mut self, line: &str) {
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back(line.to_owned());
        if line == "failures:" {
            self.in_failures = true;
        } else if line.starts_with("test result:") {
            self.in_failures = false;
        }
        let tells = self.in_failures
            || (line.starts_with("test ") && line.ends_with("... FAILED"))
            || line.starts_with("error: test failed");
        if tells && !line.trim().is_empty() && self.failures.len() < MOST {
            self.failures.push(line.to_owned());
        }
    }

    /// The lines about the failure.
    pub fn lines(&self) -> Vec<&str> {
        if self.failures.is_empty() {
            return self.last.iter().map(String::as_str).collect();
        }
        self.failures.iter().map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Excerpt, LAST};

    fn excerpt(text: &str) -> Excerpt {
        let mut excerpt = Excerpt::default();
        text.lines().for_each(|line| excerpt.line(line));
        excerpt
    }

    #[test]
    fn failed_tests_are_told_with_their_messages() {
        let text = "test a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b ----\nleft: 1\n\ntest result: FAILED\ntest c ... ok";
        assert_eq!(excerpt(text).lines(), ["test b ... FAILED", "failures:", "---- b ----", "left: 1"]);
    }

    #[test]
    fn without_tests_the_last_lines_are_told() {
        let text: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let excerpt = excerpt(&text.join("\n"));
        assert_eq!(excerpt.lines().len(), LAST);
        assert_eq!(excerpt.lines().last(), Some(&"99"));
    }
}
