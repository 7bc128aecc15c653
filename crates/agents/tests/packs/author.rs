//! From nothing to a signed pack.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use callboard_agents::{
    AuthorError, Offer, Policy, SigningKey, TrustedKey, TrustedKeys, collect, scaffold, sign,
    verify,
};

use crate::given::{good, read};

fn write(folder: &Path, path: &str, bytes: impl AsRef<[u8]>) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn new_pack() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in scaffold(&"vendor.acme.desk".parse().unwrap()) {
        write(folder.path(), path, text);
    }
    folder
}

#[test]
fn a_new_pack_is_good_as_it_stands() {
    let archive = collect(new_pack().path()).unwrap();
    let key = SigningKey::from_seed([7; 32]);
    let signed = sign(archive.into(), &key, &key.id()).unwrap();
    let trusted = TrustedKey::parse(&key.id(), &key.public_pem(), &["vendor.acme.*"]).unwrap();
    let policy = Policy { keys: TrustedKeys::none().with(trusted), ..Policy::default() };
    let found = verify(Ok(Offer::plain(signed.archive.into())), &policy);
    let vetted = found.result.unwrap();
    assert_eq!(vetted.pack.agents[0].id().as_str(), "vendor.acme.desk.assistant");
    assert!(vetted.degradation.values().all(|without| without.capabilities.is_empty()));
}

#[test]
fn the_same_folder_gives_the_same_bytes() {
    let (one, two) = (new_pack(), new_pack());
    write(two.path(), ".git/config", "not for others");
    write(two.path(), "node_modules/a.js", "not for others");
    fs::rename(two.path().join("README.md"), two.path().join("moved")).unwrap();
    fs::rename(two.path().join("moved"), two.path().join("README.md")).unwrap();
    assert_eq!(collect(one.path()).unwrap(), collect(two.path()).unwrap());
}

#[test]
fn links_are_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "secret.md", "secret");
    for target in [outside.path().to_owned(), outside.path().join("secret.md")] {
        let folder = new_pack();
        symlink(target, folder.path().join("prompts/link")).unwrap();
        let refused = collect(folder.path()).unwrap_err();
        assert!(
            matches!(&refused, AuthorError::NotPlain(path) if path.ends_with("link")),
            "{refused}"
        );
    }
}

#[test]
fn signing_again_changes_nothing() {
    let key = SigningKey::from_seed([7; 32]);
    let once = sign(good().archive(), &key, "acme-1").unwrap();
    let twice = sign(once.archive.clone().into(), &key, "acme-1").unwrap();
    assert_eq!((once.archive, once.signature), (twice.archive, twice.signature));
    let other = sign(good().archive(), &key, "acme-2").unwrap();
    assert_ne!(other.signature, twice.signature);
    read(other.archive.into()).unwrap();
}

#[test]
fn only_what_is_a_pack_is_signed() {
    let key = SigningKey::from_seed([7; 32]);
    let mut draft = good();
    draft.manifest["extra"] = true.into();
    assert!(sign(draft.archive(), &key, "acme-1").is_err());
}

#[test]
fn a_key_survives_its_file_and_hides_from_debugging() {
    let key = SigningKey::from_seed([9; 32]);
    let again = SigningKey::from_pem(&key.to_pem()).unwrap();
    assert_eq!((key.id(), key.public_pem()), (again.id(), again.public_pem()));
    assert_eq!(format!("{key:?}"), format!("SigningKey({})", key.id()));
    assert!(SigningKey::from_pem(&key.public_pem()).is_none());
    assert!(SigningKey::from_pem("hello").is_none());
}
