"use strict";
// Looks the answers up that the library computed; it knows no formula.

const names = planner.order;
const byId = (id) => document.getElementById(id);
const short = (value) => String(Number(value.toPrecision(3)));
const counted = (value) => value.toLocaleString("en");
const written = { num_records: counted, num_parameters: counted, num_chains: counted, epsilon: String, delta: String };

function answer() {
  let place = 0;
  for (const name of names) place = place * planner.axes[name].length + Number(byId(name).value);
  return planner.answers[place];
}

function show() {
  const chosen = Object.fromEntries(names.map((name) => [name, planner.axes[name][byId(name).value]]));
  for (const [name, write] of Object.entries(written)) {
    byId(`${name}-value`).textContent = write(chosen[name]);
    byId(name).setAttribute("aria-valuetext", write(chosen[name]));
  }
  const options = { sampler: chosen.sampler, epsilon: chosen.epsilon, delta: chosen.delta, records: chosen.num_records,
    parameters: chosen.num_parameters, chains: chosen.num_chains };
  const words = ["dpmcmc plan fit", ...Object.entries(options).map(([name, value]) => `--${name} ${value}`)];
  byId("command").replaceChildren(...words.flatMap((word) => {
    const whole = document.createElement("span");
    whole.textContent = word;
    return [whole, " "];
  }));
  const found = answer();
  const verdict = byId("verdict");
  verdict.classList.toggle("none", !found || found.is_refused || found.error > 1);
  const say = (words) => { verdict.firstElementChild.textContent = words; };
  if (!found) {
    say("No noise keeps this sampler within the budget.");
    for (const id of ["error", "draws", "steps", "noise"]) byId(id).textContent = "–";
  } else {
    const bound = found.is_known ? "" : "at least ";
    if (found.is_refused) say("Useless: the error would exceed one posterior standard deviation, and fit refuses before it spends anything.");
    else if (found.error > 1) say("Too noisy for this sampler: its mean would be off by more than a standard deviation. Another may do.");
    else say(`The posterior mean would be off by ${bound}about ${short(found.error)} posterior standard deviations.`);
    byId("error").textContent = bound + short(found.error);
    byId("draws").textContent = (found.is_known ? "" : "at most ") + counted(Math.round(found.effective_draws));
    byId("steps").textContent = `${chosen.num_chains} × ${counted(found.num_steps)}`;
    byId("noise").textContent = short(found.noise);
  }
  for (const row of document.querySelectorAll("#accountants [data-accountant]")) {
    const value = found ? found.epsilon[row.dataset.accountant] : undefined;
    row.hidden = value === undefined;
    row.lastElementChild.textContent = value === undefined ? "" : String(value);
  }
}

for (const name of names) byId(name).addEventListener("input", show);
byId("planner").hidden = false;
show();
