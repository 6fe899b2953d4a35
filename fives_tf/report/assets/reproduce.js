// Commands, settings, versions and times.

function showReproduce({ config, changed, versions, durations, seconds, commands }) {
  const settings = Object.entries(config).map(([name, setting]) => [
    make('code', {}, name),
    make('code', {}, settingText(setting)),
    name in changed ? 'Changed' : 'Default',
  ]);
  byId('reproduce-body').append(
    part('Commands', commands.length ? commandList(commands) : note('The commands are not known.')),
    make(
      'div',
      { class: 'columns' },
      part(
        'Durations',
        durations.length
          ? shareBars(
              durations.map((entry) => [entry.stage, entry.seconds, duration(entry.seconds)]),
            )
          : note('No times were taken.'),
        make('p', { class: 'quiet' }, `In all: ${duration(seconds)}.`),
      ),
      part(
        'Versions',
        Object.keys(versions).length
          ? plainTable(
              'Versions',
              [{ label: 'Package' }, { label: 'Version' }],
              Object.entries(versions),
            )
          : note('The versions are not known.'),
      ),
    ),
    part(
      'Settings',
      settings.length
        ? make(
            'details',
            {},
            make(
              'summary',
              {},
              `All ${count(settings.length)} settings, ${count(Object.keys(changed).length)} changed`,
            ),
            plainTable(
              'Settings',
              [{ label: 'Setting' }, { label: 'Value' }, { label: 'Set' }],
              settings,
            ),
          )
        : note('The settings are not known.'),
      changedList(changed),
    ),
  );
}

function part(title, ...children) {
  return make('div', { class: 'card' }, make('h3', {}, title), ...children);
}

function changedList(changed) {
  const entries = Object.entries(changed);
  if (!entries.length) return make('p', { class: 'quiet' }, 'All settings are the defaults.');
  return make(
    'p',
    { class: 'chips' },
    'Changed: ',
    ...entries.map(([name, setting]) => make('code', {}, `${name} = ${settingText(setting)}`)),
  );
}

function settingText(setting) {
  if (setting === null) return 'not set';
  if (typeof setting === 'number') return plain(setting);
  return typeof setting === 'string' ? setting : JSON.stringify(setting);
}

function commandList(commands) {
  const text = commands.join('\n');
  const code = make('pre', { tabindex: 0, 'aria-label': 'Commands' }, make('code', {}, text));
  const told = make('span', { class: 'quiet', role: 'status' });
  const copy = make('button', { type: 'button', class: 'button', click: copyText }, 'Copy');

  async function copyText() {
    try {
      await navigator.clipboard.writeText(text);
      told.textContent = 'Copied.';
    } catch {
      // Where a page may not write to the clipboard, one key does.
      window.getSelection().selectAllChildren(code);
      told.textContent = 'Selected: press Ctrl+C to copy.';
    }
  }

  return make('div', { class: 'commands' }, code, make('p', {}, copy, ' ', told));
}
