// The fields of the data and their values.

const FIELD_KINDS = { buckets: 'Buckets of a number', vocabulary: 'Vocabulary', hash: 'Hash' };
const FIELD_COLUMNS = [
  {
    label: 'Field',
    meaning: 'The column as the model sees it; @10 is a column of numbers cut into ten buckets.',
    value: (field) => field.name,
    cell: (field) => field.name,
  },
  {
    label: 'Column',
    meaning: 'The column of the log that the field is made of.',
    value: (field) => field.column,
    cell: (field) => field.column,
  },
  {
    label: 'Kind',
    meaning:
      'How values become ids: buckets of a number, a vocabulary of frequent values, or a hash.',
    value: (field) => field.kind,
    cell: (field) => FIELD_KINDS[field.kind] ?? field.kind,
  },
  {
    label: 'Ids',
    meaning: 'How many different values the model tells apart.',
    numeric: true,
    value: (field) => field.ids,
    cell: (field) => count(field.ids),
  },
  {
    label: 'Missing',
    meaning: 'The share of rows without a value.',
    numeric: true,
    value: (field) => field.missing,
    cell: (field) => percent(field.missing),
  },
  {
    label: 'Rare',
    meaning: 'The share of rows whose value is too seldom to have an id of its own.',
    numeric: true,
    value: (field) => field.rare,
    cell: (field) => percent(field.rare),
  },
  {
    label: 'AUC alone',
    meaning:
      'How well the click rates of the values alone rank the validation rows; 0.5 is guessing.',
    numeric: true,
    value: (field) => field.auc,
    cell: (field) => fixed(field.auc, 4),
  },
  {
    label: 'Drift',
    meaning:
      'How far the shares of the values differ between the training rows and those that the models are judged on; 0 is not at all.',
    numeric: true,
    value: (field) => field.drift,
    cell: (field) => fixed(field.drift, 4),
  },
];

function showFields({ fields, rejected }) {
  const place = byId('data-body');
  meanings(byId('data-legend'), FIELD_COLUMNS);
  if (!fields.length) {
    place.append(note('Nothing is known of the fields.'));
    return;
  }
  const table = sortableTable({
    caption: 'Fields',
    columns: FIELD_COLUMNS,
    rows: fields,
    details: fieldDetails,
    sorted: 6,
    unit: 'fields',
  });
  place.append(
    table.element,
    make(
      'p',
      { class: 'quiet' },
      rejected
        ? `${counted(rejected, 'row', 'rows')} of the log could not be read and were left out.`
        : 'All rows of the log could be read.',
    ),
  );
}

function fieldDetails(field) {
  return make(
    'div',
    { class: 'columns' },
    make(
      'div',
      {},
      make('h3', {}, 'Most frequent values'),
      field.values.length
        ? shareBars(
            field.values.map(({ value, share }) => [shownName(value), share, percent(share)]),
          )
        : note('Values are not known by name.'),
    ),
    make(
      'div',
      {},
      make('h3', {}, 'Edges of the buckets'),
      field.bucket_edges?.length
        ? make('p', { class: 'edges' }, field.bucket_edges.map(plain).join(', '))
        : note('This field has no buckets.'),
    ),
  );
}

// Names with a bar and a text each; the longest bar is that of the greatest number.
function shareBars(entries) {
  const most = Math.max(...entries.map(([, value]) => value), Number.MIN_VALUE);
  return make(
    'ul',
    { class: 'bars' },
    ...entries.map(([name, value, text]) => {
      const bar = make('span', { class: 'bar', 'aria-hidden': 'true' });
      bar.style.width = `${(100 * value) / most}%`;
      return make(
        'li',
        {},
        make('span', { class: 'name' }, name),
        make('span', { class: 'track' }, bar),
        make('span', { class: 'number' }, text),
      );
    }),
  );
}
