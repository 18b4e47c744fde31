// Building blocks: elements whose text is always text, and small charts. Nothing here ever parses HTML.

/** An element. `attributes` may hold `style` as an object (set one by one, which the page's rules allow). */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "style") for (const [key, one] of Object.entries(value)) node.style.setProperty(key, one);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

function svg(tag, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

const WIDTH = 240, HEIGHT = 56;

/** Lines over the last minute, the newest at the right. `series`: [{ values, name, fill }]; null leaves a gap. */
export function sparkline(series, label) {
  const chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "spark", role: "img", "aria-label": label });
  const top = Math.max(1e-9, ...series.flatMap((one) => one.values.filter((value) => value !== null)));
  for (const { values, name, fill } of series) {
    if (!values.some((value) => value > 0)) continue;
    const step = WIDTH / Math.max(1, values.length - 1);
    let path = "", first = null, last = null;
    values.forEach((value, at) => {
      if (value === null) return;
      const x = (at * step).toFixed(1), y = (HEIGHT - 3 - (value / top) * (HEIGHT - 8)).toFixed(1);
      path += `${last === null ? "M" : "L"}${x} ${y}`;
      first ??= x;
      last = x;
    });
    if (last === null) continue;
    if (fill) chart.append(svg("path", { d: `${path}L${last} ${HEIGHT}L${first} ${HEIGHT}Z`, class: `area ${name}` }));
    chart.append(svg("path", { d: path, class: `line ${name}`, "vector-effect": "non-scaling-stroke" }));
  }
  return chart;
}

/** A bar of parts. `parts`: [{ share, name, title }], shares of the whole from 0 to 1. */
export function bar(parts, label) {
  return el("div", { class: "bar", role: "img", "aria-label": label, title: label },
    parts.map(({ share, name, title }) =>
      el("i", { class: name, title, style: { width: `${(Math.min(1, Math.max(0, share)) * 100).toFixed(1)}%` } })));
}

export function ms(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 10_000) return `${(value / 1000).toFixed(1)} s`;
  if (value >= 1000) return `${(value / 1000).toFixed(2)} s`;
  return `${value >= 100 ? value.toFixed(0) : value.toFixed(1)} ms`;
}

export function count(value) {
  if (value === null || value === undefined) return "–";
  return value >= 10_000 ? `${(value / 1000).toFixed(1)}k` : `${Math.round(value * 10) / 10}`;
}
