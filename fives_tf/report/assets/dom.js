// Elements. Texts become text nodes: what comes from the data is never parsed as markup.

function make(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

function makeSvg(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function byId(id) {
  return document.getElementById(id);
}

// A text of one line that says why there is nothing to show.
function note(text) {
  return make('p', { class: 'note' }, text);
}

// A text in which what stands between backticks is code.
function withCode(text) {
  return text.split('`').map((piece, place) => (place % 2 ? make('code', {}, piece) : piece));
}

// A box that scrolls by itself, also by keyboard, so that the page does not.
function scrollBox(label, ...children) {
  return make(
    'div',
    { class: 'scroll', role: 'region', 'aria-label': label, tabindex: 0 },
    ...children,
  );
}

// A table whose cells are texts or elements; columns: {label, numeric}.
function plainTable(caption, columns, rows) {
  const kind = (column) => ({ class: column.numeric ? 'number' : 'text' });
  return scrollBox(
    caption,
    make(
      'table',
      {},
      make('caption', { class: 'hidden' }, caption),
      make(
        'thead',
        {},
        make(
          'tr',
          {},
          ...columns.map((column) => make('th', { scope: 'col', ...kind(column) }, column.label)),
        ),
      ),
      make(
        'tbody',
        {},
        ...rows.map((row) =>
          make('tr', {}, ...row.map((cell, place) => make('td', kind(columns[place]), cell))),
        ),
      ),
    ),
  );
}

// The same figures as a chart shows, for those who cannot see it.
function figuresTable(caption, columns, rows) {
  return make(
    'details',
    { class: 'figures' },
    make('summary', {}, 'The figures as a table'),
    plainTable(caption, columns, rows),
  );
}

// Calls something once a frame, however often it is asked for.
function oncePerFrame(action) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      action();
    });
  };
}
