//! Everything that a host reads before it starts, looked at without starting one.

use super::{Settings, cli, exporter, folder, packs, server_config, tls};
use crate::exit::CommandError;

/// All that is wrong: what would keep the host from starting, and the files that it would leave out.
pub(crate) fn faults(settings: &Settings) -> Vec<CommandError> {
    let config = &settings.config;
    let mut faults = Vec::new();
    let mut note = |result: Result<(), CommandError>| faults.extend(result.err());
    let exported = exporter(settings).map(drop);
    note(exported.map_err(|error| CommandError::usage(error.to_string())));
    note(server_config(config).map(drop));
    note(config.issuers(settings.variable).map(drop));
    note(settings.tls.as_ref().map(tls::read).transpose().map(drop));
    note(cli::check(&config.cli, &settings.data));
    let providers = config.provider_settings(settings.variable);
    note(providers.and_then(|known| {
        config.check_provider_limits(|name| known.iter().any(|it| it.name == name))
    }));
    let providers = config.provider_settings(settings.variable);
    note(providers.and_then(|known| config.model_table(&known, settings.variable)).map(drop));
    let left_out = |what: String| CommandError::usage(what);
    match folder::read(&settings.workflows) {
        Ok(files) => faults.extend(folder::faults(&files).into_iter().map(left_out)),
        Err(error) => faults.push(error),
    }
    match packs::find(&settings.packs) {
        Ok(paths) => {
            let wrong = packs::faults(&paths, &config.packs.policy());
            faults.extend(wrong.into_iter().map(left_out));
        }
        Err(error) => faults.push(error),
    }
    faults
}
