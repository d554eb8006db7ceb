// What the figures of a page do: each still drawing is taken over by a live one when it comes into view. Without this
// script, in print and where a reader saves data the still ones stay. Nothing here asks a network for anything.
"use strict";
(() => {
  const one = (tag, attributes = {}, text = "") => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    return made;
  };
  const packed = document.getElementById("runtime");
  const saves = matchMedia("(prefers-reduced-data: reduce)").matches || navigator.connection?.saveData;
  if (!packed || saves || !window.DecompressionStream) return;

  // -- the runtime, unpacked once, when the first figure comes near ------------------------------------------------------
  let loading = null;
  const runtime = () => (loading ??= (async () => {
    const bytes = Uint8Array.from(atob(packed.textContent), (c) => c.charCodeAt(0));
    const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    document.head.append(one("script", {}, await new Response(unpacked).text()));
    return window.vega;
  })());
  const refuse = async () => { throw new Error("a page loads nothing"); };
  const loader = { load: refuse, sanitize: refuse, http: refuse, file: refuse };
  const shared = JSON.parse(document.getElementById("look").textContent);

  // -- what is shown where the pointer is --------------------------------------------------------------------------------
  const tip = one("div", { class: "tip", "aria-hidden": "true", hidden: "" });
  const told = one("div", { class: "told", "aria-live": "polite" });
  document.body.append(tip, told);
  const hide = () => { tip.hidden = true; };
  const show = (words, x, y) => {
    const [head, ...lines] = words.split("\n");
    tip.replaceChildren(one("b", {}, head), ...lines.map((line) => one("span", {}, line)));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = x + 14 + box.width > innerWidth ? x - 14 - box.width : x + 14;
    tip.style.left = `${Math.max(4, Math.min(left, innerWidth - box.width - 4))}px`;
    tip.style.top = `${Math.max(4, y - box.height - 12 < 4 ? y + 18 : y - box.height - 12)}px`;
  };
  const marks = '[role="graphics-symbol"][aria-label]:not([aria-roledescription="axis"],[aria-roledescription="legend"]'
    + ',[aria-roledescription="title"])';
  const wordsOf = (target) => target.closest?.("[role=graphics-symbol][aria-label]:not(g)")?.getAttribute("aria-label");
  addEventListener("scroll", hide, { passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  // -- a group of figures: what is picked out, and how close time is looked at -------------------------------------------
  class Group {
    constructor(home) {
      this.views = [];
      this.pick = null;
      this.whole = null;
      this.times = null;
      this.tools = one("div", { class: "tools", role: "toolbar", "aria-label": "What the figures show" });
      home.before(this.tools);
      const pools = JSON.parse(home.dataset.pools ?? "[]");
      if (pools.length > 1) this.chips(pools, home.dataset.one ?? "Pool");
    }
    chips(pools, kind) {
      const all = pools.map(([name, shown, colour]) => {
        const chip = one("button", { type: "button", class: "chip", "aria-pressed": "false" });
        chip.append(one("span", { class: `sw ${colour}`, "aria-hidden": "true" }), shown);
        chip.addEventListener("click", () => {
          this.pick = this.pick === name ? null : name;
          all.forEach((other) => other.setAttribute("aria-pressed", String(other === chip && this.pick !== null)));
          this.views.forEach(({ view }) => view.signal("pick", this.pick).runAsync());
        });
        return chip;
      });
      const row = one("span", { class: "row", role: "group", "aria-label": `Pick out a ${kind.toLowerCase()}` });
      row.append(one("span", { class: "name" }, kind), ...all);
      this.tools.append(row);
    }
    clock(time) {
      if (this.whole) return;
      this.whole = [0, time.end];
      this.times = this.whole;
      const button = (label, text, act) => {
        const made = one("button", { type: "button", "aria-label": label, title: label }, text);
        made.addEventListener("click", () => act(...this.times, this.times[1] - this.times[0]));
        return made;
      };
      this.reset = button("The whole run", "whole run", () => this.look(...this.whole));
      const row = one("span", { class: "row", role: "group", "aria-label": "Time that the figures show" });
      row.append(
        one("span", { class: "name" }, "Time"),
        button("Earlier", "\u2190", (a, b, wide) => this.look(a - wide / 2, b - wide / 2)),
        button("Closer", "+", (a, b, wide) => this.look(a + wide / 4, b - wide / 4)),
        button("Wider", "\u2212", (a, b, wide) => this.look(a - wide / 2, b + wide / 2)),
        button("Later", "\u2192", (a, b, wide) => this.look(a + wide / 2, b + wide / 2)),
        this.reset, one("span", { class: "hint" }, "or drag across a figure"),
      );
      this.tools.append(row);
      this.look(...this.whole);
    }
    look(from, to) {
      const [first, last] = this.whole;
      const wide = Math.min(last - first, Math.max(to - from, (last - first) / 500));
      const start = Math.min(Math.max(from, first), last - wide);
      this.times = [start, start + wide];
      this.reset.disabled = wide >= last - first;
      hide();
      for (const { view, time } of this.views) {
        if (time) view.signal("t0", this.times[0]).signal("t1", this.times[1]).runAsync();
      }
    }
  }
  const groups = new Map();
  const groupOf = (figure) => {
    const home = figure.closest(".figures") ?? figure;
    if (!groups.has(home)) groups.set(home, new Group(home));
    return groups.get(home);
  };

  // -- a figure ----------------------------------------------------------------------------------------------------------
  async function draw(figure) {
    const { vega: spec, time } = JSON.parse(figure.querySelector("script.spec").textContent);
    const still = figure.querySelector("svg.fig");
    const vega = await runtime();
    const label = `${still.getAttribute("aria-label")} Arrow keys go from mark to mark.`;
    const live = one("div", { class: "live", role: "img", tabindex: "0", "aria-label": label });
    live.style.maxWidth = still.style.maxWidth;
    const view = new vega.View(vega.parse(spec, spec.config ? {} : shared, { ast: true }), {
      expr: vega.expressionInterpreter, renderer: "svg", loader, tooltip: () => {}, logLevel: vega.Error,
    });
    view.initialize(live);
    const group = groupOf(figure);
    if (time) group.clock(time);
    if (group.pick !== null) view.signal("pick", group.pick);
    if (time) view.signal("t0", group.times[0]).signal("t1", group.times[1]);
    await view.runAsync();
    group.views.push({ view, time });
    still.after(live);
    figure.classList.add("is-live");
    point(live, group);
    if (time) drag(live, view, group);
    walk(live);
  }

  function point(live) {
    const at = (event) => {
      const words = wordsOf(event.target);
      if (words) show(words, event.clientX, event.clientY);
      else hide();
    };
    live.addEventListener("pointermove", at);
    live.addEventListener("pointerdown", at);
    live.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hide(); });
  }

  function drag(live, view, group) {
    const brush = one("div", { class: "brush", hidden: "" });
    live.append(brush);
    let from = null;
    const hasTime = (item) => item?.datum && Number.isFinite(item.datum.t) && Number.isFinite(item.datum.t2);
    view.addEventListener("pointerdown", (event, item) => {
      if (event.pointerType === "touch" || event.button !== 0 || !hasTime(item)) return;
      event.preventDefault();
      from = { x: event.clientX, datum: item.datum, to: item.datum, box: event.target.getBoundingClientRect() };
    });
    view.addEventListener("pointermove", (event, item) => {
      if (!from) return;
      if (hasTime(item)) from.to = item.datum;
      const home = live.getBoundingClientRect();
      brush.style.left = `${Math.min(from.x, event.clientX) - home.left}px`;
      brush.style.width = `${Math.abs(event.clientX - from.x)}px`;
      brush.style.top = `${from.box.top - home.top}px`;
      brush.style.height = `${from.box.height}px`;
      brush.hidden = Math.abs(event.clientX - from.x) < 4;
    });
    addEventListener("pointerup", (event) => {
      if (!from) return;
      const { x, datum, to } = from;
      from = null;
      brush.hidden = true;
      if (Math.abs(event.clientX - x) >= 4) group.look(Math.min(datum.t, to.t), Math.max(datum.t2, to.t2));
    });
    live.addEventListener("dblclick", () => group.look(...group.whole));
  }

  function walk(live) {
    let ix = -1;
    live.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const all = [...live.querySelectorAll(marks)].filter((mark) => mark.tagName !== "g");
      if (!all.length) return;
      ix = (ix + step + all.length) % all.length;
      const box = all[ix].getBoundingClientRect();
      const words = all[ix].getAttribute("aria-label");
      show(words, box.left + box.width / 2, box.top + Math.min(box.height / 2, 40));
      told.textContent = words.replaceAll("\n", ", ");
    });
    live.addEventListener("blur", hide);
  }

  const near = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      draw(target).catch((error) => { target.dataset.failed = String(error); });
    }
  }, { rootMargin: "300px" });
  document.querySelectorAll("script.spec").forEach((spec) => near.observe(spec.parentElement));
})();
