// Learning curves of the stages, and the AUC of each layer.

const LOSSES = [
  ['loss', 'Loss'],
  ['edge_loss', 'Loss of the edges'],
  ['log_loss', 'Log loss on valid'],
];
const NETWORK_STAGE = /^(search|from_scratch|finetune|(refit|member)-\d)/;

function showCurves(curves) {
  const place = byId('curves-body');
  if (!curves.length) {
    place.append(note('This run has no learning curves.'));
    return;
  }
  const body = make('div');

  function show(number) {
    dropCharts(body);
    body.replaceChildren(...stageCurves(curves[number]));
  }

  // The search is what most want to see.
  const first = Math.max(
    0,
    curves.findIndex(({ stage }) => stage === 'search'),
  );
  const stages = select(
    'Stage',
    curves.map(({ stage }, number) => [number, stage]),
    show,
  );
  stages.control.value = first;
  show(first);
  place.append(make('div', { class: 'controls' }, stages.element), body);
}

function stageCurves({ stage, points }) {
  if (!points.length) return [note('Nothing was recorded of this stage.')];
  const { unit, times } = timeline(
    points.map((point) => point.epoch),
    points.map((point) => point.step),
  );
  const curve = (name, pick, more = {}) => ({
    name,
    data: points.map((point, place) => [times[place], pick(point) ?? null]),
    more,
  });
  const isThere = ({ data }) => data.some(([, value]) => value !== null);
  const outputs = Math.max(0, ...points.map((point) => point.output_auc?.length ?? 0));
  const output = (number) =>
    NETWORK_STAGE.test(stage) ? layerName(number) : `Penalty ${number + 1}`;
  const losses = LOSSES.map(([key, name]) => curve(name, (point) => point[key]));
  const aucs = [
    curve('AUC on valid', (point) => point.auc),
    ...Array.from({ length: outputs }, (_, number) =>
      curve(output(number), (point) => point.output_auc?.[number], { width: 1.2, type: 'dashed' }),
    ),
  ];
  return [
    make(
      'div',
      { class: 'columns' },
      curvesPart('Losses', losses.filter(isThere), unit),
      curvesPart('AUC', aucs.filter(isThere), unit),
    ),
  ];
}

function layerName(number) {
  return `Layer ${number}`;
}

function curvesPart(title, curves, unit) {
  if (!curves.length)
    return make('div', {}, make('h3', {}, title), note('Not recorded in this stage.'));
  const known = ({ data }) => data.map(([, value]) => value).filter(isKnown);
  const first = (curve) => fixed(known(curve)[0], 4);
  const last = (curve) => fixed(known(curve).at(-1), 4);
  const sentences = curves.slice(0, 3).map((curve) => `${curve.name} ends at ${last(curve)}.`);
  const series = () =>
    curves.map(({ name, data, more }, place) =>
      line(name, data, place, { lineStyle: { width: 2, color: seriesColour(place), ...more } }),
    );
  return make(
    'div',
    {},
    make('h3', {}, title),
    lineChart({
      label: `${title}. ${sentences.join(' ')}`,
      series,
      yAxis: { scale: true },
      show: (value) => fixed(value, 4),
      unit,
    }),
    figuresTable(
      title,
      [{ label: 'Curve' }, { label: 'First', numeric: true }, { label: 'Last', numeric: true }],
      curves.map((curve) => [curve.name, first(curve), last(curve)]),
    ),
  );
}

function showLayers({ split, auc }) {
  const place = byId('layers-body');
  if (!auc.some(isKnown)) {
    place.append(note('The layers were not judged one by one.'));
    return;
  }
  const sentence = `AUC on ${split}: ${auc.map((value, number) => `${layerName(number)} ${fixed(value, 4)}`).join(', ')}.`;
  const option = () => ({
    tooltip: tooltip(({ dataIndex }) =>
      tip(layerName(dataIndex), [['AUC', fixed(auc[dataIndex], 4)]]),
    ),
    grid: { left: 8, right: 64, top: 8, bottom: 8, containLabel: true },
    xAxis: axis('value', null, {
      scale: true,
      splitNumber: 4,
      axisLabel: axisText((value) => fixed(value, 4)),
    }),
    yAxis: axis('category', null, {
      inverse: true,
      data: auc.map((_, number) =>
        number ? `Layer ${number}: crosses of ${number + 1}` : 'Layer 0: single fields',
      ),
      axisLabel: axisText(undefined, { color: colour('text') }),
    }),
    series: [
      {
        type: 'scatter',
        symbolSize: 14,
        itemStyle: { color: seriesColour(0) },
        data: auc.map((value, number) => [value ?? '-', number]),
        label: {
          show: true,
          position: 'right',
          color: colour('text'),
          formatter: ({ value }) => fixed(value[0], 4),
        },
      },
    ],
  });
  place.append(
    addChart(sentence, 60 + 40 * auc.length, option).element,
    make('p', { class: 'quiet' }, sentence),
  );
}
