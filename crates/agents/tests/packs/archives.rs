//! Archives of strangers: nothing leaves the pack, nothing grows without bound, nothing panics.

use std::sync::Arc;

use callboard_agents::{Limits, Pack, PackError};
use proptest::prelude::*;
use tar::EntryType;

use crate::given::{Entry, archive, good, gzip, read, tar};

/// A good pack with one more entry.
fn with(entry: Entry) -> Arc<[u8]> {
    let mut entries = good().entries();
    entries.push(entry);
    archive(&entries)
}

fn code(archive: Arc<[u8]>) -> &'static str {
    read(archive).map(|_| "read").unwrap_or_else(|error| error.code())
}

#[test]
fn a_good_archive_is_read() {
    let pack = read(good().archive()).unwrap();
    assert_eq!(pack.name().as_str(), "vendor.acme.desk");
    assert_eq!(pack.agents.len(), 1);
    assert_eq!(&*pack.agents[0].prompt, "Sort it.");
    assert_eq!(pack.digests.len(), 4);
}

#[test]
fn folders_and_a_leading_dot_are_fine() {
    let mut entries: Vec<Entry> = vec![Entry::of("./", EntryType::Directory, "")];
    entries.push(Entry::of("./prompts/", EntryType::Directory, ""));
    for mut entry in good().entries() {
        entry.name.splice(0..0, *b"./");
        entries.push(entry);
    }
    assert_eq!(code(archive(&entries)), "read");
}

#[test]
fn a_name_that_leaves_the_pack_is_refused() {
    for name in [
        "../evil",
        "a/../../evil",
        "a/..",
        "..",
        "/etc/passwd",
        "//etc/passwd",
        "C:/evil",
        "a\\..\\evil",
        "\\evil",
        "a//b",
        "./../evil",
        "././evil",
        "a/./b",
        "a\u{1}b",
    ] {
        assert_eq!(code(with(Entry::file(name, "x"))), "tarball_path_traversal", "{name}");
        let folder = Entry::of(name, EntryType::Directory, "");
        assert_ne!(code(with(folder)), "read", "{name} as a folder");
    }
}

#[test]
fn links_are_refused_wherever_they_lead() {
    for kind in [EntryType::Symlink, EntryType::Link] {
        assert_eq!(code(with(Entry::of("README.md", kind, ""))), "tarball_path_traversal");
    }
}

#[test]
fn what_is_no_plain_file_is_refused() {
    for kind in [
        EntryType::Char,
        EntryType::Block,
        EntryType::Fifo,
        EntryType::Continuous,
        EntryType::GNULongName,
        EntryType::GNULongLink,
        EntryType::GNUSparse,
        EntryType::XHeader,
        EntryType::XGlobalHeader,
        EntryType::new(b'Z'),
    ] {
        let found = code(with(Entry::of("thing", kind, "12 path=evil\n")));
        assert_eq!(found, "tarball_tar_parse_failed", "{kind:?}");
    }
}

#[test]
fn a_name_beyond_ustar_is_refused() {
    let long = Entry { prefix: "deep/er", ..Entry::file("README.md", "x") };
    assert_eq!(code(with(long)), "tarball_tar_parse_failed");
    assert_eq!(code(with(Entry::file("a".repeat(100), "x"))), "read");
    assert_eq!(code(with(Entry::file([0xff, 0xfe], "x"))), "tarball_tar_parse_failed");
}

#[test]
fn a_file_twice_is_refused() {
    let again = Entry::file("prompts/triager.md", "something else");
    assert_eq!(code(with(again)), "tarball_tar_parse_failed");
    let again = Entry::file("./pack.json", "{}");
    assert_eq!(code(with(again)), "tarball_tar_parse_failed");
}

#[test]
fn leftovers_of_building_are_refused() {
    for name in [".git/config", "node_modules/a/b.js", "package-lock.json", "a/yarn.lock"] {
        assert_eq!(code(with(Entry::file(name, "x"))), "invalid_body", "{name}");
    }
}

#[test]
fn what_is_not_an_archive_is_refused() {
    assert_eq!(code(Arc::from(b"hello".as_slice())), "tarball_gunzip_failed");
    assert_eq!(code(Arc::from(b"".as_slice())), "tarball_gunzip_failed");
    assert_eq!(code(gzip(b"hello")), "tarball_tar_parse_failed");
    assert_eq!(code(gzip(&[7; 2048])), "tarball_tar_parse_failed");
    let whole = good().archive();
    let cut: Arc<[u8]> = whole[..whole.len() / 2].into();
    assert_eq!(code(cut), "tarball_gunzip_failed");
    let mut tar = tar(&good().entries());
    tar.truncate(600);
    assert_eq!(code(gzip(&tar)), "tarball_tar_parse_failed");
}

#[test]
fn the_manifest_must_be_at_the_root() {
    let mut entries = good().entries();
    entries[0].name = b"package/pack.json".to_vec();
    assert_eq!(code(archive(&entries)), "tarball_manifest_missing");
    assert_eq!(code(archive(&entries[1..])), "tarball_manifest_missing");
}

/// Bytes that do not compress, so that only their number counts.
fn noise(bytes: usize) -> Vec<u8> {
    let step = |state: &mut u64| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Some(state.to_be_bytes()[0])
    };
    std::iter::repeat_n((), bytes).scan(1, |state, ()| step(state)).collect()
}

#[test]
fn every_limit_is_held() {
    let big = |bytes: usize| {
        let mut draft = good();
        draft.file("README.md", noise(bytes));
        draft.archive()
    };
    let default = Limits::default();
    let cases = [
        (Limits { archive: 100, ..default }, big(0), "tarball_too_large"),
        (Limits { unpacked: 4_000, ..default }, big(4_000), "tarball_too_large"),
        (Limits { entries: 3, ..default }, big(0), "tarball_too_large"),
        (Limits { entry: 999, ..default }, big(1_000), "tarball_entry_too_large"),
        (Limits { manifest: 100, ..default }, big(0), "tarball_manifest_too_large"),
        (default, big(5 << 20), "read"),
        (default, big((5 << 20) + 1), "tarball_entry_too_large"),
    ];
    for (limits, archive, expected) in cases {
        let found =
            Pack::read(archive, &limits).map(|_| "read").unwrap_or_else(|error| error.code());
        assert_eq!(found, expected, "{limits:?}");
    }
}

#[test]
fn a_bomb_is_not_unpacked() {
    let bomb = gzip(&vec![0; 40 << 20]);
    assert!(bomb.len() < 300 << 10);
    let refused = read(bomb.clone()).unwrap_err();
    let limit = bomb.len() * 100;
    assert_eq!(refused, PackError::UnpackedTooLarge { limit });
}

#[test]
fn a_size_that_lies_is_refused() {
    for size in [1 << 40, u64::MAX >> 1, 1 << 20] {
        let liar = Entry { size: Some(size), ..Entry::file("README.md", "x") };
        let found = code(with(liar));
        assert!(found.starts_with("tarball_"), "{size}: {found}");
    }
}

fn kinds() -> impl Strategy<Value = EntryType> {
    prop_oneof![
        4 => Just(EntryType::Regular),
        1 => Just(EntryType::Directory),
        1 => any::<u8>().prop_map(EntryType::new),
    ]
}

fn names() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"pack.json".to_vec()),
        "([a-z./\\\\:]|\\.\\.|\\./){1,20}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..100),
    ]
}

fn entries() -> impl Strategy<Value = Entry> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..600);
    (names(), kinds(), bytes, proptest::option::of(any::<u64>().prop_map(|size| size >> 20)))
        .prop_map(|(name, kind, bytes, size)| {
            let size = size.filter(|size| size % 3 == 0);
            Entry { size, ..Entry::of(name, kind, bytes) }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_gets_through_has_only_plain_names(found in proptest::collection::vec(entries(), 0..6)) {
        let mut all = good().entries();
        all.extend(found);
        if let Ok(pack) = read(archive(&all)) {
            for path in pack.digests.keys() {
                let plain = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
                prop_assert!(plain && !path.contains(['\\', ':']), "{path:?}");
            }
        }
    }

    #[test]
    fn a_damaged_archive_never_panics(at in 0usize..4_000, byte in any::<u8>(), compressed in any::<bool>()) {
        let bytes = if compressed {
            let mut bytes = good().archive().to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            Arc::from(bytes)
        } else {
            let mut bytes = tar(&good().entries());
            let at = at % bytes.len();
            bytes[at] = byte;
            gzip(&bytes)
        };
        let _ = read(bytes);
    }

    #[test]
    fn noise_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..4_000)) {
        prop_assert!(read(Arc::from(bytes.clone())).is_err());
        prop_assert!(read(gzip(&bytes)).is_err());
    }
}
