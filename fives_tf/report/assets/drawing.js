// One layer of the feature graph as a drawing: start fields left, end fields right, edges between.

const MOST_EDGES = 400; // more are but a black surface
const LETTER = 7.4; // about the width of one
const TOP = 34; // room for the heads above the nodes

// edges: [{start, end, strength}], strongest first. tone: edge => 'on', 'off' or 'plain'.
function drawLayer({ number, fields, edges, width, tone, chosen, choose }) {
  const step = fields.length > 40 ? 16 : 22;
  const height = TOP + fields.length * step;
  const label = Math.round(
    Math.min(width * 0.36, 14 + LETTER * Math.max(...fields.map((field) => [...field].length))),
  );
  const [left, right] = [label + 8, width - label - 8];
  const y = (field) => TOP + (field + 0.5) * step;
  const linked = new Set(edges.flatMap(({ start, end }) => [`start ${start}`, `end ${end}`]));
  const ends = (side, x, anchor, offset) =>
    fields.map((field, place) =>
      makeSvg(
        'g',
        {
          class: `node ${linked.has(`${side} ${place}`) ? 'linked' : 'lone'} ${side === 'start' && place === chosen ? 'chosen' : ''}`,
          click: () => choose(place),
        },
        makeSvg('title', {}, field),
        makeSvg('circle', { cx: x, cy: y(place), r: 4 }),
        makeSvg(
          'text',
          { x: x + offset, y: y(place) + 4, 'text-anchor': anchor },
          shortened(field, Math.floor(label / LETTER)),
        ),
      ),
    );
  // Edges of one layer may all be about as strong; so they are set off against each other.
  const [most, least] = [edges[0]?.strength, edges.at(-1)?.strength];
  const rank = (strength) => (most > least ? (strength - least) / (most - least) : 1);
  const curve = ({ start, end, strength }) => {
    const middle = (left + right) / 2;
    return makeSvg(
      'path',
      {
        class: `edge ${tone({ start, end })}`,
        d: `M${left} ${y(start)} C${middle} ${y(start)} ${middle} ${y(end)} ${right} ${y(end)}`,
        'stroke-width': (0.8 + 2 * rank(strength)).toFixed(2),
        'stroke-opacity': (0.2 + 0.7 * rank(strength)).toFixed(2),
      },
      makeSvg('title', {}, `${fields[start]} to ${fields[end]}: ${fixed(strength, 2)}`),
    );
  };
  // Those that are meant lie on top.
  const drawn = [...edges].sort((one, other) => (tone(one) === 'on') - (tone(other) === 'on'));
  return makeSvg(
    'svg',
    {
      class: 'layer',
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: 'img',
      'aria-label': `Layer ${number}: ${counted(edges.length, 'edge', 'edges')}. ${strongest(edges, fields)}`,
    },
    makeSvg('text', { class: 'head', x: left, y: 14, 'text-anchor': 'end' }, 'Start'),
    makeSvg('text', { class: 'head', x: right, y: 14 }, 'Adds'),
    makeSvg('g', {}, ...drawn.map(curve)),
    makeSvg('g', {}, ...ends('start', left, 'end', -10), ...ends('end', right, 'start', 10)),
  );
}

function strongest(edges, fields) {
  const first = edges
    .slice(0, 3)
    .map(
      ({ start, end, strength }) => `${fields[start]} to ${fields[end]} (${fixed(strength, 2)})`,
    );
  return first.length ? `The strongest: ${first.join(', ')}.` : '';
}
