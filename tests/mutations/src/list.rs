//! The list of mutations, as it is written in `list.txt`.

use std::path::Path;

/// A change of the code that the tests must notice.
pub struct Mutation {
    /// The file, from the root of the repository.
    pub file: String,
    /// The name of the mutation in reports.
    pub name: String,
    before: String,
    after: String,
}

/// Reads all mutations, in the order of the list. The error describes a mistake in the list.
pub fn read(list: &str) -> Result<Vec<Mutation>, String> {
    let mut all = Vec::new();
    let mut lines = list.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let Some(title) = line.strip_prefix("== ") else { continue };
        let missing = |what| format!("line {}: {what}", at + 1);
        let (file, name) = title.split_once(": ").ok_or(missing("a file, a colon and a name"))?;
        let mut until = |end| {
            let text: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| *line != end).collect();
            text.join("\n")
        };
        let (before, after) = (until("--"), until(".."));
        if before.is_empty() || before == after {
            return Err(missing("a change"));
        }
        let [file, name] = [file, name].map(str::to_owned);
        all.push(Mutation { file, name, before, after });
    }
    Ok(all)
}

impl Mutation {
    /// Returns the text of the file with the change.
    pub fn apply(&self, root: &Path) -> Result<String, String> {
        let text = std::fs::read_to_string(root.join(&self.file))
            .map_err(|error| format!("{}: {error}", self.file))?;
        match text.matches(&self.before).count() {
            1 => Ok(text.replace(&self.before, &self.after)),
            times => Err(format!("{}: `{}` fits {times} times", self.file, self.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_fits_its_file_once() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let all = read(include_str!("../list.txt")).unwrap();
        assert!(all.len() >= 60, "{}", all.len());
        let wrong: Vec<String> = all.iter().filter_map(|one| one.apply(&root).err()).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let mut names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len(), "a name stands twice");
    }

    #[test]
    fn a_list_that_cannot_be_read_is_refused() {
        assert!(read("== no colon\na\n--\nb\n..\n").is_err());
        assert!(read("== file: name\na\n--\na\n..\n").is_err());
        assert!(read("== file: name\n--\nb\n..\n").is_err());
        let all = read("before\n== file: a: b\none\ntwo\n--\n..\nbetween\n").unwrap();
        assert_eq!((all[0].file.as_str(), all[0].name.as_str()), ("file", "a: b"));
        assert_eq!((all[0].before.as_str(), all[0].after.as_str()), ("one\ntwo", ""));
    }
}
