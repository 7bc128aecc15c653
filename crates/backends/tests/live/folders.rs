//! Folders of runs: a coding agent's goes with the end of its run, a workspace with the run itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use callboard_backends::{CliAgents, CliSettings, CliSurroundings, FolderSweeper, RunFolders};
use callboard_engine::{Clock as _, CodingSessions, Store as _};
use callboard_protocol::{Object, RunId, Tenant};
use serde_json::json;

use crate::given::{World, workflow};
use crate::retrieval::{run, world};
use crate::sim::{ended, order};

fn sweeper(world: &World, data: &Path) -> FolderSweeper {
    let coding = RunFolders::at(data.join("coding"));
    let surroundings = CliSurroundings {
        environment: BTreeMap::new(),
        folders: coding.clone(),
        records: None,
        sessions: None,
        hidden: Vec::new(),
        scratch: None,
        launcher: None,
    };
    FolderSweeper {
        store: world.store.clone(),
        sessions: CodingSessions::new(world.store.clone()),
        agents: Arc::new(CliAgents::new(CliSettings::default(), surroundings)),
        coding,
        workspaces: RunFolders::at(data.join("workspaces")),
    }
}

fn owners(folders: &RunFolders) -> Vec<(Tenant, RunId)> {
    folders.list().unwrap().into_iter().map(|folder| (folder.tenant, folder.run)).collect()
}

#[tokio::test]
async fn folders_go_when_nobody_needs_them_and_not_before() {
    let mut world = world().await;
    let data = tempfile::tempdir().unwrap();
    world.settings.workspaces = data.path().join("workspaces");
    let mut waiting = workflow("waiting", &["gate"]);
    waiting["nodes"] = json!([{
        "id": "gate", "typeId": "core.approvalGate", "name": "gate",
        "position": { "x": 0, "y": 0 }, "config": { "title": "May it?" }, "inputs": {},
    }]);
    world.definitions.push(waiting);
    let host = world.host("host", world.store.clone());
    let sweeper = sweeper(&world, data.path());

    let open = host.create(order("waiting", Object::new(), Object::new()), None).await.unwrap().run;
    let here = Tenant::from("default");
    // The name of one of them says nothing to a disk.
    for tenant in ["default", "Acme & Sons"] {
        run(&world, &host, tenant).await;
    }
    // The newest run stays whatever happens; it is none of these.
    let last = host.create(order("errand", Object::new(), Object::new()), None).await.unwrap().run;
    ended(&world.store, &last).await;
    let mut written = owners(&sweeper.workspaces);
    written.sort();
    let tenants: Vec<&str> = written.iter().map(|(tenant, _)| tenant.as_str()).collect();
    assert_eq!(tenants, ["Acme & Sons", "default"], "tools say whose their files are");
    for (tenant, run) in written.iter().chain([&(here.clone(), open.clone())]) {
        sweeper.coding.prepare(tenant, run).unwrap();
    }
    let never = sweeper.workspaces.prepare(&"rival".into(), &open).unwrap();

    sweeper.sweep_coding().await;
    assert_eq!(owners(&sweeper.coding), [(here.clone(), open.clone())], "only it has not ended");
    sweeper.sweep_workspaces().await;
    assert!(!never.work().exists(), "somebody else's run keeps nobody's folder");
    assert_eq!(owners(&sweeper.workspaces).len(), 2, "the runs have ended but are kept");

    let later = world.clock.now().plus(std::time::Duration::from_secs(86_400));
    world.store.remove_ended(&callboard_engine::Removable::before(later), None, 16).await.unwrap();
    sweeper.workspaces.prepare(&here, &open).unwrap();
    sweeper.sweep_workspaces().await;
    assert_eq!(owners(&sweeper.workspaces), [(here, open)], "files go with their run");
}
