// What charts show under the pointer: elements, so that no text of the data becomes markup.

function tip(title, rows) {
  return make(
    'div',
    { class: 'tip' },
    make('strong', {}, title),
    make(
      'dl',
      {},
      ...rows.flatMap(([name, value]) => [make('dt', {}, name), make('dd', {}, value)]),
    ),
  );
}

function tooltip(content, trigger = 'item') {
  return {
    trigger,
    confine: true,
    backgroundColor: colour('surface'),
    borderColor: colour('line'),
    borderWidth: 1,
    padding: 0,
    transitionDuration: 0,
    textStyle: { color: colour('text'), fontSize: 13 },
    formatter: content,
  };
}
