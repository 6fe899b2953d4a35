// What the run is about and how good its models are.

function showHeadline(report) {
  const { headline } = report;
  byId('title').textContent = report.title;
  byId('subtitle').textContent =
    `Dataset ${headline.dataset}, run ${headline.run}, ${readableTime(report.created)}`;
  byId('footer').textContent = `Written by ${report.written_by}.`;
  byId('tiles').append(tiles(headline));
  byId('models').append(modelsTable(headline));
  byId('models-note').textContent = modelsNote(headline);
  byId('splits').append(splitsTable(headline));
  showCalibration(byId('calibration'), headline);
}

function readableTime(time) {
  return time.replace('T', ' ').replace(/(Z|\+00:00)$/, ' UTC');
}

function tiles(headline) {
  const rows = headline.splits.reduce((sum, split) => sum + split.rows, 0);
  const clicks = headline.splits.reduce((sum, split) => sum + split.clicks, 0);
  const [own] = headline.models;
  const plainModel = regression(headline);
  const gain = own && plainModel && difference(own.auc, plainModel.auc);
  const entries = [
    ['Rows', count(rows), rows ? `${percent(clicks / rows)} clicked` : 'none are known'],
    [
      'Fields',
      count(headline.fields),
      `of ${counted(headline.columns, 'column', 'columns')}, ${count(headline.ids)} ids`,
    ],
    [`${splitName(headline)} AUC`, fixed(own?.auc, 4), own ? `of ${own.label}` : ''],
    ['Gain in AUC', signed(gain, 4), 'over the plain logistic regression'],
    ['Crosses in use', count(headline.crosses_used), 'with weights in the light model'],
  ];
  return make(
    'dl',
    { class: 'tiles' },
    ...entries.map(([name, value, more]) =>
      make(
        'div',
        { class: 'tile' },
        make('dt', {}, name),
        make('dd', { class: 'figure' }, value),
        make('dd', { class: 'quiet' }, more),
      ),
    ),
  );
}

function splitName(headline) {
  return headline.judged_on === 'test' ? 'Test' : 'Validation';
}

function regression(headline) {
  return headline.models.find((model) => model.key === 'lr');
}

function difference(value, other) {
  return isKnown(value) && isKnown(other) ? value - other : null;
}

function modelsTable(headline) {
  if (!headline.models.length) return note('No model was judged.');
  const reference = regression(headline);
  const scale = intervalScale(headline.models);
  const four = (value) => fixed(value, 4);
  const gain = (model) =>
    model === reference
      ? UNKNOWN
      : withBelow(
          signed(difference(model.auc, reference?.auc), 4),
          model.above_lr_interval && range(model.above_lr_interval, (value) => signed(value, 4)),
        );
  const loss = (model) => {
    const change = difference(model.log_loss, reference?.log_loss);
    return withBelow(
      four(model.log_loss),
      model !== reference && isKnown(change) ? `${signed(change, 4)} against LR` : null,
    );
  };
  return plainTable(
    `Models on the ${headline.judged_on} rows`,
    [
      { label: 'Model' },
      { label: 'AUC, with its 95% interval', numeric: true },
      { label: 'Gain over LR', numeric: true },
      { label: 'Log loss', numeric: true },
    ],
    headline.models.map((model, place) => [
      make('strong', {}, model.label),
      withBelow(
        four(model.auc),
        model.auc_interval && range(model.auc_interval, four),
        intervalBar(model, scale, place),
      ),
      gain(model),
      loss(model),
    ]),
  );
}

// A figure, and smaller below it what belongs to it.
function withBelow(figure, text, drawing = null) {
  return make(
    'div',
    { class: 'figure-cell' },
    make('strong', {}, figure),
    drawing,
    text ? make('span', { class: 'quiet' }, text) : null,
  );
}

// From an AUC to a place on the bars, which are 150 wide.
function intervalScale(models) {
  const ends = models
    .flatMap((model) => [model.auc, ...(model.auc_interval ?? [])])
    .filter(isKnown);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  return (value) => (high > low ? 6 + (138 * (value - low)) / (high - low) : 75);
}

// The interval as a bar, on one scale for all models.
function intervalBar(model, scale, place) {
  if (!model.auc_interval) return null;
  const [low, high] = model.auc_interval.map(scale);
  return makeSvg(
    'svg',
    {
      viewBox: '0 0 150 12',
      width: 150,
      height: 12,
      'aria-hidden': 'true',
      class: `interval tone-${place % 8}`,
    },
    makeSvg('line', { x1: low, x2: high, y1: 6, y2: 6 }),
    makeSvg('circle', { cx: scale(model.auc), cy: 6, r: 4 }),
  );
}

function modelsNote(headline) {
  const judged =
    headline.judged_on === 'test'
      ? 'Judged on the test rows, which no model has seen.'
      : 'There are no test rows, so the models are judged on the validation rows, before they also learned from there. Choices were made on these rows, so the figures are too good.';
  return `${judged} The model of the run is the first.`;
}

function splitsTable(headline) {
  if (!headline.splits.length) return note('The rows were not counted.');
  const columns = [
    { label: 'Split' },
    { label: 'Rows', numeric: true },
    { label: 'Clicks', numeric: true },
    { label: 'Click rate', numeric: true },
  ];
  return plainTable(
    'Rows of each split',
    columns,
    headline.splits.map((split) => [
      split.name,
      count(split.rows),
      count(split.clicks),
      percent(split.rate),
    ]),
  );
}

function showCalibration(place, headline) {
  const models = headline.models.filter((model) => headline.calibration[model.key]?.length);
  if (!models.length) {
    place.append(note('There are too few rows to tell.'));
    return;
  }
  const bins = (model) => headline.calibration[model.key];
  place.append(
    addChart(calibrationLabel(models, bins), 400, () => calibrationOption(models, bins)).element,
    figuresTable(
      'Calibration by bins of the prediction',
      [
        { label: 'Model' },
        { label: 'Rows', numeric: true },
        { label: 'Predicted', numeric: true },
        { label: 'Clicked', numeric: true },
        { label: '95% interval', numeric: true },
      ],
      models.flatMap((model) =>
        bins(model).map((bin) => [
          model.label,
          count(bin.rows),
          percent(bin.predicted),
          percent(bin.clicked),
          range(bin.interval, percent),
        ]),
      ),
    ),
  );
}

function calibrationLabel(models, bins) {
  const worst = (model) =>
    Math.max(...bins(model).map((bin) => Math.abs(bin.predicted - bin.clicked)));
  const sentences = models.map(
    (model) => `${model.label} is at most ${percent(worst(model))} points off.`,
  );
  return `Predicted against observed click rates. ${sentences.join(' ')}`;
}

function calibrationOption(models, bins) {
  const end = Math.max(
    ...models.flatMap((model) =>
      bins(model).map((bin) => Math.max(bin.predicted, bin.interval?.[1] ?? bin.clicked)),
    ),
  );
  const step = 10 ** Math.floor(Math.log10(end || 1));
  const most = Math.min(1, Math.ceil(end / step) * step);
  return {
    tooltip: tooltip(({ seriesName, data }) =>
      data.bin
        ? tip(seriesName, [
            ['Rows', count(data.bin.rows)],
            ['Predicted', percent(data.bin.predicted)],
            ['Clicked', percent(data.bin.clicked)],
            ['95% interval', range(data.bin.interval, percent)],
          ])
        : null,
    ),
    // Three models at once hide each other; one click in the legend shows another one.
    legend: legend({
      data: models.map((model) => model.label),
      selected: Object.fromEntries(
        models.map((model, place) => [model.label, place === 0 || model.key === 'lr']),
      ),
    }),
    grid: { left: 24, right: 16, top: 40, bottom: 28, containLabel: true },
    xAxis: axis('value', 'Predicted', { min: 0, max: most, axisLabel: axisText(axisPercent) }),
    yAxis: axis('value', 'Clicked', {
      min: 0,
      max: most,
      nameGap: 42,
      axisLabel: axisText(axisPercent),
    }),
    series: [
      {
        type: 'line',
        data: [
          [0, 0],
          [most, most],
        ],
        symbol: 'none',
        silent: true,
        lineStyle: { type: 'dashed', width: 1, color: colour('muted') },
      },
      ...models.flatMap((model, place) => [
        intervals(
          model.label,
          bins(model)
            .filter((bin) => bin.interval)
            .map((bin) => [bin.predicted, ...bin.interval]),
          seriesColour(place),
        ),
        line(
          model.label,
          bins(model).map((bin) => ({ value: [bin.predicted, bin.clicked], bin })),
          place,
          { symbolSize: 8 },
        ),
      ]),
    ],
  };
}
