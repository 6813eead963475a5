//! The memory that this process may use: its container's limit, or the
//! machine's memory.

use std::path::{Path, PathBuf};

/// The share of the memory that the cache may hold if the configuration sets no
/// limit. For a moment, a list that replaces a large resource is in memory
/// beside it, so that 40 % may become 80 %. The rest is for connections,
/// answers on their way, and memory that the allocator keeps.
const SHARE: (u64, u64) = (2, 5);

const CGROUPS: &str = "/sys/fs/cgroup";

/// Returns the limit that holds if the configuration sets none. `None` if the
/// amount of memory is unknown.
pub(super) fn default_memory_limit() -> Option<usize> {
    let memory = system_memory()?;
    let (part, whole) = SHARE;
    usize::try_from(memory.checked_div(whole)?.saturating_mul(part)).ok()
}

/// Returns the bytes of memory that this process may use. `None` if that is
/// unknown.
pub fn system_memory() -> Option<u64> {
    memory(|path| std::fs::read_to_string(path).ok())
}

/// Returns the least memory in bytes that the files tell.
fn memory(read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (root, file) = match controllers {
            // cgroup version 2 has one hierarchy for all controllers.
            "" => (CGROUPS.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|c| c == "memory") => {
                (format!("{CGROUPS}/memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        least(Path::new(&root), path, file, &read)
    });
    limits.chain(total(&read)).min()
}

/// Returns the least limit of a group and its parent groups. Inside a container
/// the path may not exist, but the root is the container's group.
fn least(
    root: &Path,
    path: &str,
    file: &str,
    read: &impl Fn(&Path) -> Option<String>,
) -> Option<u64> {
    let group: PathBuf = root.join(path.trim_start_matches('/'));
    let within = group
        .ancestors()
        .take_while(|group| group.starts_with(root));
    within
        // A group without a limit holds "max", which is not a number.
        .filter_map(|group| read(&group.join(file))?.trim().parse().ok())
        .min()
}

fn total(read: &impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let text = read(Path::new("/proc/meminfo"))?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: (&str, &str) = ("/proc/meminfo", "MemTotal:       8000 kB\nMemFree: 1 kB\n");

    fn memory_in(files: &[(&str, &str)]) -> Option<u64> {
        memory(|path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn the_least_limit_counts() {
        let v2 = ("/proc/self/cgroup", "0::/kubepods/pod1/c\n");
        let v1 = ("/proc/self/cgroup", "3:cpu:/x\n2:memory,blkio:/docker/c\n");
        for (files, expected) in [
            (vec![], None),
            (vec![MACHINE], Some(8_192_000)),
            (vec![v2, MACHINE], Some(8_192_000)),
            (
                vec![
                    v2,
                    MACHINE,
                    ("/sys/fs/cgroup/kubepods/pod1/c/memory.max", "max\n"),
                    ("/sys/fs/cgroup/kubepods/pod1/memory.max", "500\n"),
                    ("/sys/fs/cgroup/kubepods/memory.max", "1000\n"),
                ],
                Some(500),
            ),
            // A container sees its own group as the root.
            (
                vec![
                    ("/proc/self/cgroup", "0::/\n"),
                    MACHINE,
                    ("/sys/fs/cgroup/memory.max", "700\n"),
                ],
                Some(700),
            ),
            (
                vec![
                    v1,
                    MACHINE,
                    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "300\n"),
                ],
                Some(300),
            ),
            // cgroup version 1 shows a missing limit as a number beyond all
            // memory.
            (
                vec![
                    v1,
                    MACHINE,
                    (
                        "/sys/fs/cgroup/memory/docker/c/memory.limit_in_bytes",
                        "9223372036854771712\n",
                    ),
                ],
                Some(8_192_000),
            ),
            (vec![v2, ("/proc/meminfo", "nonsense")], None),
        ] {
            assert_eq!(memory_in(&files), expected, "{files:?}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_memory() {
        assert!(default_memory_limit().is_some_and(|limit| limit > 1 << 20));
    }
}
