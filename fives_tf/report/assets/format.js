// Numbers for people. What is not known is a dash.

const UNKNOWN = '–';

function isKnown(value) {
  return value !== null && value !== undefined;
}

function count(value) {
  return isKnown(value) ? value.toLocaleString('en-US') : UNKNOWN;
}

function counted(value, one, many) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

function fixed(value, digits) {
  return isKnown(value) ? withMinus(value.toFixed(digits)) : UNKNOWN;
}

function signed(value, digits) {
  if (!isKnown(value)) return UNKNOWN;
  const text = fixed(value, digits);
  return value > 0 ? `+${text}` : text;
}

// Click rates are often far below a hundredth, so small shares have more digits.
function percent(value) {
  if (!isKnown(value)) return UNKNOWN;
  if (value > 0 && value < 0.00005) return '<0.01%';
  return `${(100 * value).toFixed(value > 0 && value < 0.01 ? 2 : 1)}%`;
}

// A share at an axis, with as many digits as it needs.
function axisPercent(value) {
  return `${plain(100 * value)}%`;
}

function range(interval, show) {
  return interval ? `${show(interval[0])} to ${show(interval[1])}` : UNKNOWN;
}

function duration(seconds) {
  if (!isKnown(seconds)) return UNKNOWN;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${whole % 60} s` : `${whole} s`;
}

// A number of any size, such as the edge of a bucket or a value of the configuration.
function plain(value) {
  return withMinus(Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6))));
}

// A value that is empty is shown by words, else there is nothing to see or to press.
function shownName(text) {
  return text === '' ? '(empty)' : text;
}

function shortened(text, length) {
  const characters = [...text];
  return characters.length > length ? `${characters.slice(0, length - 1).join('')}…` : text;
}

function withMinus(text) {
  // "-0.0000" is a zero that rounding has left a sign on.
  return /^-0\.?0*$/.test(text) ? text.slice(1) : text.replace(/^-/, '−');
}
