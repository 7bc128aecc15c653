//! Who stands where: one chart for each owner, in versions, with nobody in it who is gone.

use callboard_engine::{KeyMode, StoreError, StoredChart};
use callboard_protocol::{
    AgentOrgChart, AgentRosterEntry, Department, OrgRole, Placement, RosterOwner,
};

use crate::Subject;
use crate::given::{acme, at};
use crate::roster::entry;

fn of(tenant: &str, workspace: Option<&str>) -> RosterOwner {
    RosterOwner { tenant_id: tenant.into(), workspace_id: workspace.map(Into::into) }
}

/// Everybody works for the first.
fn chart(owner: RosterOwner, members: &[&str]) -> AgentOrgChart {
    let role = OrgRole { role_id: "lead".to_owned(), name: "Lead".to_owned() };
    let department = Department {
        department_id: "desk".to_owned(),
        name: "Desk".to_owned(),
        parent_department_id: None,
        roles: vec![role],
    };
    let place = |(index, member): (usize, &&str)| Placement {
        roster_id: (*member).into(),
        department_id: "desk".to_owned(),
        role_id: "lead".to_owned(),
        reports_to: (index > 0).then(|| members[0].into()),
    };
    let members = members.iter().enumerate().map(place).collect();
    AgentOrgChart { owner, departments: vec![department], members }
}

pub(crate) async fn a_chart_is_its_owners_own_and_moves_one_version_at_a_time(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let (ours, growth) = (of("acme", None), of("acme", Some("growth")));
    subject.roster()?.hire(KeyMode::Live, entry("host:a", &[]), at(1)).await?;
    let owner = growth.clone();
    subject
        .roster()?
        .hire(KeyMode::Live, AgentRosterEntry { owner, ..entry("host:g", &[]) }, at(1))
        .await?;
    let moved = |outcome: Result<u64, StoreError>| matches!(outcome, Err(StoreError::Moved { .. }));
    assert!(moved(
        subject.charts()?.put_chart(KeyMode::Live, &chart(ours.clone(), &["host:x"]), None).await
    ));
    assert!(moved(
        subject.charts()?.put_chart(KeyMode::Live, &chart(growth.clone(), &["host:a"]), None).await
    ));
    assert!(moved(
        subject
            .charts()?
            .put_chart(KeyMode::Live, &chart(of("globex", None), &["host:a"]), None)
            .await
    ));
    let drawn = chart(ours.clone(), &["host:a", "host:g"]);
    assert_eq!(subject.charts()?.put_chart(KeyMode::Live, &drawn.clone(), Some(0)).await?, 1);
    assert!(moved(subject.charts()?.put_chart(KeyMode::Live, &drawn.clone(), Some(0)).await));
    assert_eq!(subject.charts()?.put_chart(KeyMode::Live, &drawn.clone(), Some(1)).await?, 2);
    assert_eq!(subject.charts()?.put_chart(KeyMode::Live, &drawn.clone(), None).await?, 3);
    subject.restart().await?;
    assert_eq!(
        subject.charts()?.chart(KeyMode::Live, &ours).await?,
        Some(StoredChart { chart: drawn, version: 3 })
    );
    assert_eq!(subject.charts()?.chart(KeyMode::Live, &growth).await?, None);
    assert_eq!(subject.charts()?.chart(KeyMode::Live, &of("globex", None)).await?, None);
    Ok(())
}

pub(crate) async fn a_test_keys_chart_is_apart_from_the_live_one(
    subject: Subject,
) -> anyhow::Result<()> {
    let ours = of("acme", None);
    subject.roster()?.hire(KeyMode::Live, entry("host:l", &[]), at(1)).await?;
    subject.roster()?.hire(KeyMode::Test, entry("host:t", &[]), at(1)).await?;
    let drawn = chart(ours.clone(), &["host:l"]);
    let strange = subject.charts()?.put_chart(KeyMode::Test, &drawn, None).await;
    assert!(matches!(strange, Err(StoreError::Moved { .. })));
    for (mode, id) in [(KeyMode::Live, "host:l"), (KeyMode::Test, "host:t")] {
        assert_eq!(
            subject.charts()?.put_chart(mode, &chart(ours.clone(), &[id]), Some(0)).await?,
            1
        );
    }
    for (mode, id) in [(KeyMode::Live, "host:l"), (KeyMode::Test, "host:t")] {
        let kept = StoredChart { chart: chart(ours.clone(), &[id]), version: 1 };
        assert_eq!(subject.charts()?.chart(mode, &ours).await?, Some(kept));
    }
    Ok(())
}

pub(crate) async fn whoever_is_dismissed_leaves_every_chart(
    subject: Subject,
) -> anyhow::Result<()> {
    let (ours, theirs) = (of("acme", None), of("globex", None));
    for owner in [&ours, &theirs] {
        for id in ["host:a", "host:b"] {
            let owner = owner.clone();
            subject
                .roster()?
                .hire(KeyMode::Live, AgentRosterEntry { owner, ..entry(id, &[]) }, at(1))
                .await?;
        }
        subject
            .charts()?
            .put_chart(KeyMode::Live, &chart(owner.clone(), &["host:a", "host:b"]), None)
            .await?;
    }
    subject.roster()?.dismiss(&acme(), &"host:a".into()).await?;
    let left = StoredChart { chart: chart(ours.clone(), &["host:b"]), version: 2 };
    assert_eq!(subject.charts()?.chart(KeyMode::Live, &ours).await?, Some(left));
    let whole = chart(theirs.clone(), &["host:a", "host:b"]);
    assert_eq!(
        subject.charts()?.chart(KeyMode::Live, &theirs).await?.map(|stored| stored.chart),
        Some(whole)
    );
    Ok(())
}
