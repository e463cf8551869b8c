"use strict";
// Plots over time: the pointer or a slider reads the lines of all plots of one span at once.
const short = (v) => v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2);
const plots = [...document.querySelectorAll("figure svg .cursor[data-span]")].map((cursor) => {
  const svg = cursor.ownerSVGElement, data = cursor.dataset;
  const [left, right, low, high] = [+data.left, +data.right, +data.low, +data.high];
  const top = cursor.y1.baseVal.value, bottom = cursor.y2.baseVal.value;
  const value = (y) => {
    if (data.log === "true" && y <= top + .05) return data.lost === "true" ? "lost" : "≥ " + short(high);
    const share = (bottom - y) / (bottom - top);
    return short(data.log === "true" ? low * Math.pow(high / low, share) : low + share * (high - low));
  };
  // A line keeps its height from step to step: M x y, H x, V y.
  const lines = [...svg.querySelectorAll("path.line")].map((path) => {
    const parts = [];
    let x = 0, y = 0;
    for (const [, command, one, two] of path.getAttribute("d").matchAll(/([MHV])([\d.]+)(?: ([\d.]+))?/g)) {
      if (command === "V") y = +one;
      else if (command === "H") { parts.push([x, +one, y]); x = +one; }
      else { x = +one; y = +two; }
    }
    return {name: path.querySelector("title").textContent, parts};
  });
  const marks = [...svg.querySelectorAll(".mark")].map((m) => [parseFloat(m.getAttribute("d").slice(1)), m.querySelector("title").textContent]);
  const lanes = [...svg.querySelectorAll(".lane")].map((lane) => ({
    name: lane.querySelector(".name").textContent,
    spans: [...(lane.querySelector(".over")?.getAttribute("d") ?? "").matchAll(/M([\d.]+) \d+H([\d.]+)/g)].map((m) => [+m[1], +m[2]]),
  }));
  const unit = svg.querySelector(".axis").textContent;
  const read = document.createElement("p");
  read.className = "read";
  svg.after(read);
  return {svg, left, right, clock: data.span + unit, show(share) {
    const x = left + share * (right - left);
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, x);
    cursor.setAttribute("visibility", "visible");
    const said = lines.map((l) => {
      const part = l.parts.find((p) => x >= p[0] && x <= p[1]);
      return l.name + " " + (part ? value(part[2]) : "–");
    });
    for (const m of marks) if (Math.abs(m[0] - x) <= 4.5) said.push(m[1]);
    if (lanes.length) said.push("over the promise: " + (lanes.filter((l) => l.spans.some((s) => x >= s[0] && x <= s[1])).map((l) => l.name).join(", ") || "none"));
    read.textContent = unit.replace(/s$/, "") + " " + short(share * data.span) + ": " + said.join(", ");
  }};
});
for (const clock of new Set(plots.map((p) => p.clock))) {
  const together = plots.filter((p) => p.clock === clock);
  const label = document.createElement("label"), slider = document.createElement("input");
  label.className = "time";
  label.append("Time ", slider);
  Object.assign(slider, {type: "range", min: 0, max: 1000, value: 0});
  const at = (share) => {
    share = Math.min(1, Math.max(0, share));
    for (const plot of together) plot.show(share);
    slider.value = 1000 * share;
  };
  for (const plot of together) plot.svg.addEventListener("pointermove", (e) => {
    const p = new DOMPoint(e.clientX, e.clientY).matrixTransform(plot.svg.getScreenCTM().inverse());
    at((p.x - plot.left) / (plot.right - plot.left));
  });
  slider.addEventListener("input", () => at(slider.value / 1000));
  together[0].svg.closest(".plots").before(label);
}

// Machines: the line below a picture repeats the row of the table for the machine under the pointer.
const fleets = [...document.querySelectorAll(".fleet")];
function light(app) {
  for (const svg of document.querySelectorAll(".fleet .pan svg")) {
    svg.classList.toggle("dim", app !== null);
    for (const path of svg.querySelectorAll(".app")) path.classList.toggle("lit", path.dataset.app === app);
  }
}
for (const fleet of fleets) {
  const svg = fleet.querySelector("svg"), detail = fleet.querySelector(".detail");
  const label = fleet.querySelector("label"), slider = label.querySelector("input");
  const table = document.getElementById(fleet.id + "-table");
  const rows = table.querySelectorAll("tbody tr"), heads = table.querySelectorAll("thead th");
  const names = new Map();
  for (const path of svg.querySelectorAll(".app")) {
    const title = path.querySelector("title");
    names.set(path.dataset.app, title.textContent);
    title.remove(); // the line below has it
  }
  const cursor = svg.querySelector(".cursor"), pan = svg.parentNode;
  const left = +svg.dataset.left, pitch = +svg.dataset.pitch;
  const show = (i, app) => {
    cursor.setAttribute("x", left + i * pitch);
    cursor.setAttribute("visibility", "visible");
    const cells = [...rows[i].children].map((c, k) => heads[k].textContent + " " + c.textContent);
    detail.textContent = cells.join("; ") + ".";
    if (app) {
      const strong = document.createElement("strong");
      strong.textContent = names.get(app) + ". ";
      detail.prepend(strong);
    }
    slider.value = i + 1;
    slider.setAttribute("aria-valuetext", cells.slice(0, 3).join("; "));
  };
  svg.addEventListener("pointermove", (e) => {
    const at = new DOMPoint(e.clientX, e.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const i = Math.floor((at.x - left) / pitch);
    const app = e.target.dataset.app ?? null;
    light(app);
    if (i >= 0 && i < rows.length) show(i, app);
  });
  svg.addEventListener("pointerleave", () => light(null));
  slider.addEventListener("input", () => {
    light(null);
    show(slider.value - 1, null);
    pan.scrollLeft = (left + slider.value * pitch) * svg.getScreenCTM().a - pan.clientWidth / 2;
  });
  detail.textContent = "Point at a machine, or move the slider, to see what it holds.";
  label.hidden = detail.hidden = false;
}

for (const button of document.querySelectorAll(".copy button")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C"; // a page of a file has no clipboard of its own
  });
}
