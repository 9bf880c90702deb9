"use strict";
// The page can be read without this. It adds: the choice of a parameter, values under the pointer, copying.

const chooser = document.getElementById("parameter");
if (chooser) {
  chooser.parentElement.hidden = false;
  chooser.addEventListener("change", () => {
    for (const card of document.querySelectorAll("#posterior .units-original [data-parameter], #chains [data-parameter]"))
      card.hidden = chooser.value !== "" && card.dataset.parameter !== chooser.value;
    const scaled = [...document.querySelectorAll("#posterior .units-scaled [data-parameter]")];
    const known = scaled.some((card) => card.dataset.parameter === chooser.value);
    for (const card of scaled)
      card.hidden = known && card.dataset.parameter !== chooser.value;
  });
}

for (const chart of document.querySelectorAll("svg[data-readings]")) {
  const readings = JSON.parse(chart.dataset.readings);
  const output = chart.parentElement.querySelector(".reading");
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
  const box = chart.viewBox.baseVal;
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("y1", readings.span[0]);
  cursor.setAttribute("y2", readings.span[1]);
  let at = Math.floor(readings.x.length / 2);

  const show = (index) => {
    at = Math.max(0, Math.min(readings.x.length - 1, index));
    cursor.setAttribute("x1", readings.at[at]);
    cursor.setAttribute("x2", readings.at[at]);
    chart.append(cursor);
    const values = Object.entries(readings.lines).map(([name, line]) => `${name} ${line[at]}`);
    output.textContent = `${readings.label} ${readings.x[at]}: ${values.join(", ")}`;
  };
  const hide = () => { cursor.remove(); output.textContent = ""; };

  chart.addEventListener("pointermove", (event) => {
    const frame = chart.getBoundingClientRect();
    const place = (event.clientX - frame.left) / frame.width * box.width;
    let nearest = 0;
    readings.at.forEach((x, index) => {
      if (Math.abs(x - place) < Math.abs(readings.at[nearest] - place)) nearest = index;
    });
    show(nearest);
  });
  chart.addEventListener("pointerleave", hide);
  chart.addEventListener("blur", hide);
  chart.addEventListener("focus", () => show(at));
  chart.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    show(at + step);
  });
  chart.setAttribute("tabindex", "0");
}
