"use strict";
// Values under the pointer. Everything is read back from the drawing itself, so nothing is stored twice.
(() => {
  const tip = document.getElementById("tip");
  const short = v => {
    const a = Math.abs(v);
    return String(+v.toFixed(a >= 99.95 ? 0 : a >= 9.995 ? 1 : a >= 0.9995 ? 2 : 3));
  };
  const value = ([low, high, kind], place) =>
    kind === "log" ? +low * Math.pow(high / low, place) : +low + (high - low) * place;
  const nearest = (points, x) => {
    let a = 0, b = points.length - 1;
    while (b - a > 1) { const m = (a + b) >> 1; if (points[m][0] < x) a = m; else b = m; }
    return Math.abs(points[a][0] - x) <= Math.abs(points[b][0] - x) ? points[a] : points[b];
  };
  for (const svg of document.querySelectorAll("svg.chart")) {
    const [left, top, right, bottom] = svg.dataset.box.split(" ").map(Number);
    const xa = svg.dataset.x.split(" "), ya = svg.dataset.y.split(" ");
    let lines = null, cursor = null;
    const read = () => [...svg.querySelectorAll("g[data-label]")].map(g => ({
      label: g.dataset.label, colour: g.getAttribute("class"),
      points: [...g.querySelectorAll("polyline")]
        .flatMap(p => p.getAttribute("points").split(" ").map(q => q.split(",").map(Number))),
    })).filter(l => l.points.length);
    const hide = () => { tip.hidden = true; if (cursor) cursor.remove(); cursor = null; };
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("pointermove", event => {
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      if (x < left || x > right) return hide();
      lines ??= read();
      if (!cursor) {
        cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
        cursor.setAttribute("class", "cursor");
        cursor.setAttribute("y1", top);
        cursor.setAttribute("y2", bottom);
        svg.append(cursor);
      }
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
      tip.replaceChildren();
      const head = document.createElement("div");
      head.textContent = short(value(xa, (x - left) / (right - left))) + " " + svg.dataset.xl;
      tip.append(head);
      for (const line of lines) {
        const [px, py] = nearest(line.points, x);
        if (Math.abs(px - x) > 24) continue;
        const row = document.createElement("div"), dot = document.createElement("i");
        row.className = line.colour;
        row.append(dot, line.label + ": " + short(value(ya, (bottom - py) / (bottom - top))) + " " + svg.dataset.yl);
        tip.append(row);
      }
      tip.hidden = false;
      const wide = tip.offsetWidth + 20;
      tip.style.left = (event.clientX + wide > innerWidth ? event.clientX - wide : event.clientX + 16) + "px";
      tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
    });
  }
})();
