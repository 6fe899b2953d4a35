// What a user should act on.

const WARNING_KINDS = {
  leak: 'Possible leak',
  constant: 'Constant field',
  twins: 'Twin fields',
  drift: 'Drift',
  missing: 'Missing values',
  click_rate: 'Click rate',
  no_test: 'No test rows',
};

function showWarnings(warnings) {
  const place = byId('warnings-body');
  byId('warning-count').textContent = warnings.length ? count(warnings.length) : '';
  if (!warnings.length) {
    place.append(make('p', { class: 'good' }, 'Nothing was found that needs your attention.'));
    return;
  }
  place.append(
    make(
      'ul',
      { class: 'warnings' },
      ...warnings.map((warning) =>
        make(
          'li',
          {},
          make('h3', {}, WARNING_KINDS[warning.kind] ?? warning.kind),
          make('p', {}, ...withCode(warning.text)),
          make('p', { class: 'advice' }, ...withCode(warning.advice)),
          warning.fields.length
            ? make(
                'p',
                { class: 'chips' },
                ...warning.fields.map((field) => make('code', {}, field)),
              )
            : null,
        ),
      ),
    ),
  );
}
