// The strength of edges against the AUC of their crosses.

function showScatter({ points: dots, of, correlations }) {
  const place = byId('scatter-body');
  if (!dots.length) {
    place.append(note('The AUC of single crosses was not measured.'));
    return;
  }
  const layers = [...new Set(dots.map((dot) => dot.layer))].sort((a, b) => a - b);
  const sentence = make('p');
  let kind = 'strength';
  const drawing = addChart(scatterSentence(dots, of, correlations, kind), 420, () =>
    scatterOption(dots, layers, kind),
  );

  function show(chosen) {
    kind = chosen;
    sentence.textContent = scatterSentence(dots, of, correlations, kind);
    drawing.element.setAttribute('aria-label', sentence.textContent);
    drawing.redraw();
  }

  show(kind);
  place.append(
    make(
      'div',
      { class: 'controls' },
      choice(
        'Strength',
        [
          ['strength', 'Before re-scaling'],
          ['soft', 'After re-scaling'],
        ],
        show,
      ),
    ),
    sentence,
    drawing.element,
  );
}

function scatterSentence(dots, of, correlations, kind) {
  const sentences = correlations
    .filter((one) => one.of === kind)
    .map(
      (one) =>
        `Layer ${one.layer}: Pearson ${fixed(one.pearson, 2)}, Spearman ${fixed(one.spearman, 2)}.`,
    );
  const shown =
    of > dots.length
      ? `${count(dots.length)} of ${counted(of, 'edge', 'edges')}, drawn at random`
      : counted(dots.length, 'edge', 'edges');
  return `${shown}. Correlation of strength and AUC: ${sentences.join(' ') || 'not known.'}`;
}

function scatterOption(dots, layers, kind) {
  return {
    tooltip: tooltip(({ data: { dot } }) =>
      tip(dot.cross, [
        ['Edge', `${dot.start} to ${dot.end}`],
        ['Layer', count(dot.layer)],
        ['Before re-scaling', fixed(dot.strength, 3)],
        ['After re-scaling', fixed(dot.soft, 3)],
        ['AUC alone', fixed(dot.auc, 4)],
      ]),
    ),
    legend: legend({ icon: null }),
    grid: { left: 28, right: 20, top: 40, bottom: 28, containLabel: true },
    xAxis: axis('value', 'Strength of the edge', { min: 0, max: 1 }),
    yAxis: axis('value', 'AUC of the cross alone', { scale: true, nameGap: 46 }),
    series: layers.map((layer, number) => ({
      type: 'scatter',
      name: `Layer ${layer}`,
      symbol: ['circle', 'diamond', 'triangle'][number % 3],
      symbolSize: 8,
      itemStyle: { color: seriesColour(number), opacity: 0.7 },
      data: dots
        .filter((dot) => dot.layer === layer)
        .map((dot) => ({ value: [dot[kind], dot.auc], dot })),
    })),
  };
}
