// The crosses as a table, and for each of them the values that tell most.

const CROSS_COLUMNS = [
  {
    label: 'Cross',
    meaning: 'The fields that are taken together.',
    value: (cross) => cross.name,
    cell: (cross) => cross.name,
  },
  {
    label: 'Order',
    meaning: 'How many fields the cross has.',
    numeric: true,
    value: (cross) => cross.order,
    cell: (cross) => count(cross.order),
  },
  {
    label: 'Score',
    meaning:
      'How sure the search is: the product of the probabilities of the edges on the best path. Compare it within one order only.',
    numeric: true,
    value: (cross) => cross.score,
    cell: (cross) => fixed(cross.score, 4),
  },
  {
    label: 'AUC alone',
    meaning:
      'How well the click rates of the combinations alone rank the validation rows; 0.5 is guessing.',
    numeric: true,
    value: (cross) => cross.auc,
    cell: (cross) => fixed(cross.auc, 4),
  },
  {
    label: 'Mutual information',
    meaning:
      'How much the cross tells of the click, in bits, corrected for small samples; about 0, or below, if it tells nothing.',
    numeric: true,
    value: (cross) => cross.mutual_information,
    cell: (cross) => fixed(cross.mutual_information, 4),
  },
  {
    label: 'Coverage',
    meaning:
      'The share of the training rows whose combination of values is frequent enough to have an id of its own.',
    numeric: true,
    value: (cross) => cross.coverage,
    cell: (cross) => percent(cross.coverage),
  },
  {
    label: 'Gain',
    meaning:
      'By how much the cross lowers the log loss of a logistic regression on rows held out; a dash if it was not ranked.',
    numeric: true,
    value: (cross) => cross.gain,
    cell: (cross) => signed(cross.gain, 5),
  },
  {
    label: 'Lift',
    meaning:
      'By how much the AUC of a logistic regression on the validation rows changes if the cross is added.',
    numeric: true,
    value: (cross) => cross.lift,
    cell: (cross) => signed(cross.lift, 4),
  },
  {
    label: 'Used',
    meaning: 'Whether the cross has weights in the light model.',
    numeric: true,
    value: (cross) => Number(cross.used),
    cell: (cross) => (cross.used ? 'Yes' : 'No'),
  },
];

const [SCORE, GAIN] = ['Score', 'Gain'].map((label) =>
  CROSS_COLUMNS.findIndex((column) => column.label === label),
);

// Returns what opens a cross by its name, for the other parts of the page.
function showCrosses(crosses) {
  const place = byId('crosses-body');
  meanings(byId('crosses-legend'), CROSS_COLUMNS);
  if (!crosses.length) {
    place.append(note('The search found no cross: no edge is strong enough.'));
    return () => {};
  }
  const orders = [...new Set(crosses.map((cross) => cross.order))].sort((a, b) => a - b);
  const table = sortableTable({
    caption: 'Crosses',
    columns: CROSS_COLUMNS,
    rows: crosses,
    details: crossDetails,
    unit: 'crosses',
    // What a cross is worth on rows held out tells more than how sure the search is, where it is known.
    sorted: crosses.some((cross) => isKnown(cross.gain)) ? GAIN : SCORE,
  });
  const text = make('input', {
    type: 'search',
    autocomplete: 'off',
    spellcheck: 'false',
    input: filter,
  });
  const order = select(
    'Order',
    [['', 'All'], ...orders.map((value) => [value, count(value)])],
    filter,
  );
  const used = make('input', { type: 'checkbox', change: filter });
  const told = make('p', { class: 'quiet', role: 'status' });

  function filter() {
    const wanted = text.value.trim().toLowerCase();
    const rows = crosses.filter(
      (cross) =>
        cross.name.toLowerCase().includes(wanted) &&
        (!order.control.value || cross.order === Number(order.control.value)) &&
        (!used.checked || cross.used),
    );
    table.show(rows);
    told.textContent = `${count(rows.length)} of ${counted(crosses.length, 'cross', 'crosses')}`;
  }

  filter();
  place.append(
    make(
      'div',
      { class: 'controls' },
      make('label', { class: 'control' }, make('span', {}, 'Name contains'), text),
      order.element,
      make('label', { class: 'check' }, used, make('span', {}, 'Used ones only')),
      told,
    ),
    table.element,
  );
  return (name) => {
    const cross = crosses.find((one) => one.name === name);
    if (!cross) return;
    text.value = '';
    order.control.value = '';
    used.checked = false;
    filter();
    table.open(cross);
  };
}

function crossDetails(cross) {
  const name = (value) => value.values.join(' · ');
  if (!cross.values.length) return note('No combination of values is frequent enough to be shown.');
  const columns = [
    { label: 'Values' },
    { label: 'Rows', numeric: true },
    { label: 'Click rate', numeric: true },
    { label: '95% interval', numeric: true },
    { label: 'Expected', numeric: true },
  ];
  const rows = cross.values.map((value) => [
    name(value),
    count(value.rows),
    percent(value.rate),
    range(value.interval, percent),
    percent(value.expected),
  ]);
  const [first] = cross.values;
  const label =
    `Click rates of ${counted(cross.values.length, 'combination', 'combinations')} of ${cross.name}. ` +
    `The most telling is ${name(first)}: ${percent(first.rate)} clicked, ${percent(first.expected)} expected.`;
  return make(
    'div',
    { class: 'columns uneven' },
    make(
      'div',
      {},
      make(
        'p',
        {},
        'The combinations that tell most, first. Expected is what the plain logistic regression predicts ' +
          'there on average: where the click rate lies far from it, the cross knows more than its fields alone.',
      ),
      plainTable(`Values of ${cross.name}`, columns, rows),
    ),
    addChart(label, 76 + 26 * cross.values.length, () => valuesOption(cross.values, name)).element,
  );
}

function valuesOption(values, name) {
  const content = ({ dataIndex }) => {
    const value = values[dataIndex];
    return tip(name(value), [
      ['Rows', count(value.rows)],
      ['Clicks', count(value.clicks)],
      ['Click rate', percent(value.rate)],
      ['95% interval', range(value.interval, percent)],
      ['Expected', percent(value.expected)],
    ]);
  };
  const dots = (label, key, place, symbol) => ({
    type: 'scatter',
    name: label,
    symbol,
    symbolSize: 10,
    itemStyle: { color: seriesColour(place) },
    data: values.map((value, row) => [value[key] ?? '-', row]),
  });
  return {
    tooltip: tooltip(content),
    legend: legend({ icon: null, data: ['Click rate', 'Expected'] }),
    grid: { left: 8, right: 20, top: 32, bottom: 8, containLabel: true },
    xAxis: axis('value', null, {
      min: 0,
      max: ({ max }) => (max > 0.9 ? 1 : null),
      splitNumber: 5,
      axisLabel: axisText(axisPercent),
    }),
    yAxis: axis('category', null, {
      inverse: true,
      data: values.map((value, row) => row),
      axisLabel: axisText((row) => shortened(name(values[row]), 24), {
        color: colour('text'),
        interval: 0,
      }),
    }),
    series: [
      intervals(
        'Click rate',
        values.flatMap((value, row) => (value.interval ? [[row, ...value.interval]] : [])),
        seriesColour(0),
        true,
      ),
      dots('Click rate', 'rate', 0, 'circle'),
      dots('Expected', 'expected', 1, 'diamond'),
    ],
  };
}
