// A table that sorts by its headers, shows some rows first and opens rows for details.

const FIRST_ROWS = 20;

// columns: {label, meaning, numeric, value: row => what to sort by, cell: row => what to show}; the
// first column names the row. details: row => an element. sorted: the place of a column.
function sortableTable({ caption, columns, rows, details, sorted, unit }) {
  const table = new SortableTable(caption, columns, details, unit);
  table.sortBy(sorted);
  table.show(rows);
  return table;
}

function meanings(list, columns) {
  list.append(
    ...columns.flatMap(({ label, meaning }) => [make('dt', {}, label), make('dd', {}, meaning)]),
  );
}

class SortableTable {
  constructor(caption, columns, details, unit) {
    this.columns = columns;
    this.details = details;
    this.unit = unit;
    this.limit = FIRST_ROWS;
    this.opened = new Set();
    this.buttons = new Map();
    this.headers = columns.map((column, place) =>
      make(
        'th',
        { scope: 'col', class: column.numeric ? 'number' : 'text' },
        make(
          'button',
          { type: 'button', title: column.meaning, click: () => this.sortBy(place) },
          make('span', {}, column.label),
        ),
      ),
    );
    this.body = make('tbody');
    this.more = make('button', { type: 'button', class: 'button', click: () => this.showAll() });
    this.element = make(
      'div',
      {},
      scrollBox(
        caption,
        make(
          'table',
          { class: 'sortable' },
          make('caption', { class: 'hidden' }, caption),
          make('thead', {}, make('tr', {}, ...this.headers)),
          this.body,
        ),
      ),
      make('p', { class: 'more' }, this.more),
    );
    this.rows = [];
    this.place = null;
    this.rising = true;
  }

  show(rows) {
    this.rows = rows;
    this.fill();
  }

  showAll() {
    this.limit = Infinity;
    this.fill();
  }

  // The first click puts names from A on and the greatest numbers first; the next turns it round.
  sortBy(place) {
    this.rising = this.place === place ? !this.rising : !this.columns[place].numeric;
    this.place = place;
    this.headers.forEach((header, other) =>
      header.setAttribute(
        'aria-sort',
        other !== place ? 'none' : this.rising ? 'ascending' : 'descending',
      ),
    );
    this.fill();
  }

  open(row) {
    if (!this.rows.includes(row)) return;
    this.opened.add(row);
    this.limit = Infinity;
    this.fill();
    const button = this.buttons.get(row);
    button.focus({ preventScroll: true });
    button.scrollIntoView({ block: 'center' });
  }

  toggle(row) {
    if (!this.opened.delete(row)) this.opened.add(row);
    this.fill();
    this.buttons.get(row).focus({ preventScroll: true });
  }

  fill() {
    dropCharts(this.body);
    this.buttons.clear();
    const shown = this.inOrder().slice(0, this.limit);
    this.body.replaceChildren(...shown.flatMap((row, number) => this.makeRow(row, number)));
    if (!shown.length) {
      this.body.append(
        make('tr', {}, make('td', { colspan: this.columns.length }, `No ${this.unit} to show.`)),
      );
    }
    this.more.parentElement.hidden = shown.length === this.rows.length;
    this.more.textContent = `Show all ${count(this.rows.length)} ${this.unit}`;
  }

  // What is not known comes last in either direction.
  inOrder() {
    const { value } = this.columns[this.place];
    const turn = this.rising ? 1 : -1;
    return [...this.rows].sort((one, other) => {
      const [a, b] = [value(one), value(other)];
      if (!isKnown(a) || !isKnown(b)) return isKnown(b) - isKnown(a);
      return turn * (typeof a === 'string' ? a.localeCompare(b, 'en', { numeric: true }) : a - b);
    });
  }

  makeRow(row, number) {
    const open = this.opened.has(row);
    const id = `${this.unit}-${number}-details`;
    const [first, ...others] = this.columns;
    const button = make(
      'button',
      {
        type: 'button',
        class: 'opener',
        'aria-expanded': String(open),
        'aria-controls': open && id,
        click: () => this.toggle(row),
      },
      shownName(first.cell(row)),
    );
    this.buttons.set(row, button);
    const cells = others.map((column) =>
      make('td', { class: column.numeric ? 'number' : 'text' }, column.cell(row)),
    );
    const line = make(
      'tr',
      { class: open ? 'open' : null },
      make('th', { scope: 'row' }, button),
      ...cells,
    );
    line.addEventListener('click', (event) => {
      const selecting = String(window.getSelection());
      if (!event.target.closest('button') && !selecting) this.toggle(row);
    });
    if (!open) return [line];
    const content = make('div', { class: 'row-details' }, this.details(row));
    return [
      line,
      make('tr', { id, class: 'details' }, make('td', { colspan: this.columns.length }, content)),
    ];
  }
}
