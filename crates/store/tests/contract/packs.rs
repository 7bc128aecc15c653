//! Installed packs.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_engine::{KeyMode, PackId, PackOwner, Packs, PutPack, Realm, StoredPack};
use callboard_protocol::PackName;
use futures_util::future::join_all;

use crate::Subject;
use crate::given::at;

fn id(owner: PackOwner, version: &str) -> anyhow::Result<PackId> {
    let name: PackName = "vendor.acme.desk".parse()?;
    Ok(PackId { owner, name, version: version.parse()? })
}

fn of(tenant: &str, mode: KeyMode) -> PackOwner {
    PackOwner::Realm(Realm { tenant: tenant.into(), mode })
}

fn of_acme(version: &str) -> anyhow::Result<PackId> {
    id(of("acme", KeyMode::Live), version)
}

/// A pack whose archive is the given text.
fn pack(id: PackId, archive: &str) -> (StoredPack, Arc<[u8]>) {
    let mut digest = [0; 32];
    digest[..archive.len()].copy_from_slice(archive.as_bytes());
    let stored = StoredPack {
        id,
        digest,
        files: BTreeMap::from([("pack.json".to_owned(), [0xab; 32])]),
        signed_by: Some("acme-1".to_owned()),
        verified_by: None,
        signature: Some(vec![1, 2, 3]),
        is_removed: false,
        installed_at: at(1_000),
    };
    (stored, archive.as_bytes().into())
}

async fn put(store: &Packs, id: PackId, archive: &str) -> anyhow::Result<PutPack> {
    let (stored, archive) = pack(id, archive);
    Ok(store.put_pack(stored, archive).await?)
}

async fn archive_of(store: &Packs, id: PackId, archive: &str) -> anyhow::Result<Option<Arc<[u8]>>> {
    let digest = pack(id.clone(), archive).0.digest;
    Ok(store.pack_archive(&id, &digest).await?)
}

pub(crate) async fn a_pack_is_kept_with_its_archive(subject: Subject) -> anyhow::Result<()> {
    let store = &Packs::new(subject.store()?);
    let (stored, archive) = pack(of_acme("1.0.0")?, "bytes");
    assert_eq!(store.put_pack(stored.clone(), archive.clone()).await?, PutPack::Created);
    assert_eq!(store.all_packs().await?, std::slice::from_ref(&stored));
    assert_eq!(store.pack_archive(&stored.id, &stored.digest).await?, Some(archive));
    assert_eq!(store.pack_archive(&of_acme("1.0.1")?, &stored.digest).await?, None);

    assert!(store.remove_pack(&stored.id).await?);
    assert!(!store.remove_pack(&stored.id).await?);
    let kept = store.all_packs().await?;
    assert!(kept.len() == 1 && kept[0].is_removed, "runs that keep it still find it");
    assert!(store.pack_archive(&stored.id, &stored.digest).await?.is_some());
    assert_eq!(put(store, of_acme("1.0.0")?, "bytes").await?, PutPack::Created);
    assert!(!store.all_packs().await?[0].is_removed);
    Ok(())
}

pub(crate) async fn the_same_pack_again_changes_nothing(subject: Subject) -> anyhow::Result<()> {
    let store = &Packs::new(subject.store()?);
    put(store, of_acme("1.0.0")?, "bytes").await?;
    let (mut again, archive) = pack(of_acme("1.0.0")?, "bytes");
    again.installed_at = at(9_000);
    assert_eq!(store.put_pack(again, archive).await?, PutPack::Unchanged);
    assert_eq!(store.all_packs().await?, [pack(of_acme("1.0.0")?, "bytes").0]);
    Ok(())
}

pub(crate) async fn other_bytes_for_a_known_version_conflict(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = &Packs::new(subject.store()?);
    put(store, of_acme("1.0.0")?, "first").await?;
    assert_eq!(put(store, of_acme("1.0.0")?, "second").await?, PutPack::Conflict);
    let kept = archive_of(store, of_acme("1.0.0")?, "first").await?;
    assert_eq!(kept.as_deref(), Some(b"first".as_slice()));
    assert_eq!(put(store, of_acme("1.0.1")?, "second").await?, PutPack::Created);
    Ok(())
}

pub(crate) async fn a_removed_version_may_come_again_with_other_bytes(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = &Packs::new(subject.store()?);
    put(store, of_acme("1.0.0")?, "first").await?;
    store.remove_pack(&of_acme("1.0.0")?).await?;
    assert_eq!(put(store, of_acme("1.0.0")?, "second").await?, PutPack::Created);
    assert_eq!(put(store, of_acme("1.0.0")?, "first").await?, PutPack::Conflict);
    for archive in ["first", "second"] {
        let kept = archive_of(store, of_acme("1.0.0")?, archive).await?;
        assert_eq!(kept.as_deref(), Some(archive.as_bytes()), "runs keep what they began with");
    }
    assert!(store.remove_pack(&of_acme("1.0.0")?).await?);
    assert_eq!(put(store, of_acme("1.0.0")?, "first").await?, PutPack::Created);
    let all = store.all_packs().await?;
    assert_eq!(all.iter().filter(|pack| !pack.is_removed).count(), 1);
    assert_eq!(all.len(), 2);
    Ok(())
}

/// What proves a pack may become known later; it is not forgotten.
pub(crate) async fn the_same_pack_again_may_be_proven(subject: Subject) -> anyhow::Result<()> {
    let store = &Packs::new(subject.store()?);
    let (first, archive) = pack(of_acme("1.0.0")?, "bytes");
    store.put_pack(StoredPack { signed_by: None, ..first.clone() }, archive.clone()).await?;
    let proven = StoredPack { verified_by: Some("registry".to_owned()), ..first.clone() };
    for again in [proven.clone(), first] {
        assert_eq!(store.put_pack(again, archive.clone()).await?, PutPack::Unchanged);
        assert_eq!(store.all_packs().await?, std::slice::from_ref(&proven));
    }
    Ok(())
}

pub(crate) async fn parallel_installs_of_one_version_make_one(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = &Packs::new(subject.store()?);
    let id = of_acme("1.0.0")?;
    let same = join_all((0..8).map(|_| put(store, id.clone(), "bytes"))).await;
    let same: Vec<PutPack> = same.into_iter().collect::<Result<_, _>>()?;
    assert_eq!(same.iter().filter(|put| **put == PutPack::Created).count(), 1, "{same:?}");
    assert_eq!(same.iter().filter(|put| **put == PutPack::Unchanged).count(), 7, "{same:?}");
    assert_eq!(store.all_packs().await?.len(), 1);
    Ok(())
}

pub(crate) async fn packs_are_kept_per_owner(subject: Subject) -> anyhow::Result<()> {
    let store = &Packs::new(subject.store()?);
    let owners = [
        PackOwner::Host,
        of("acme", KeyMode::Live),
        of("globex", KeyMode::Live),
        of("acme", KeyMode::Test),
    ];
    for (owner, archive) in owners.iter().zip(["host", "acme", "globex", "test"]) {
        assert_eq!(put(store, id(owner.clone(), "1.0.0")?, archive).await?, PutPack::Created);
    }
    assert!(store.remove_pack(&id(owners[1].clone(), "1.0.0")?).await?);
    let kept = archive_of(store, id(PackOwner::Host, "1.0.0")?, "host").await?;
    assert_eq!(kept.as_deref(), Some(b"host".as_slice()));
    let kept = archive_of(store, id(owners[2].clone(), "1.0.0")?, "globex").await?;
    assert_eq!(kept.as_deref(), Some(b"globex".as_slice()));
    assert_eq!(store.all_packs().await?.iter().filter(|pack| !pack.is_removed).count(), 3);
    Ok(())
}

pub(crate) async fn packs_survive_a_new_process(mut subject: Subject) -> anyhow::Result<()> {
    put(&Packs::new(subject.store()?), of_acme("1.0.0")?, "bytes").await?;
    subject.restart().await?;
    let store = &Packs::new(subject.store()?);
    assert_eq!(store.all_packs().await?, [pack(of_acme("1.0.0")?, "bytes").0]);
    let kept = archive_of(store, of_acme("1.0.0")?, "bytes").await?;
    assert_eq!(kept.as_deref(), Some(b"bytes".as_slice()));
    Ok(())
}
