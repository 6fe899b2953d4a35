// Controls with their labels.

function select(label, options, change) {
  const control = make(
    'select',
    { change: () => change(control.value) },
    ...options.map(([value, text]) => make('option', { value }, text)),
  );
  return {
    element: make('label', { class: 'control' }, make('span', {}, label), control),
    control,
  };
}

// One choice of a few that are all in sight.
function choice(label, options, change) {
  const name = `choice-${(choice.count += 1)}`;
  const entries = options.map(([value, text], place) =>
    make(
      'label',
      {},
      make('input', {
        type: 'radio',
        name,
        value,
        checked: place === 0,
        change: () => change(value),
      }),
      make('span', {}, text),
    ),
  );
  return make(
    'fieldset',
    { class: 'choice' },
    make('legend', {}, label),
    make('div', {}, ...entries),
  );
}
choice.count = 0;
