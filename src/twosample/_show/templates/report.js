"use strict";
// What a reader can do beside reading: choose the level alpha, light or dark; sort tables; point at the map; copy.
// Without this script the page is complete, at the level it was written for.
(() => {
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const make = (name, text = "", owner = null) => {
    const made = document.createElement(name);
    made.textContent = text; // never markup: it may come from the data
    if (owner) owner.append(made);
    return made;
  };
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  root.classList.add("js");

  document.getElementById("theme").addEventListener("click", () => {
    const shown = root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    root.dataset.theme = shown === "dark" ? "light" : "dark";
  });

  const slider = document.getElementById("alpha");
  slider.addEventListener("input", () => {
    const alpha = data.levels[Number(slider.value)];
    slider.setAttribute("aria-valuetext", alpha);
    for (const item of all("[data-level]")) item.toggleAttribute("hidden", Number(item.dataset.level) !== alpha);
    for (const card of all("[data-tested]")) card.classList.toggle("found", Number(card.dataset.tested) <= alpha);
    for (const row of all("[data-adjusted]")) row.classList.toggle("differs", Number(row.dataset.adjusted) <= alpha);
  });

  const sort = (table, column, header) => {
    const order = header.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
    const number = (text) => (text === "" ? NaN : Number(text));
    const compare = (a, b) => {
      const [p, q] = [number(a), number(b)];
      if (Number.isNaN(p) || Number.isNaN(q)) return a === "" ? 1 : b === "" ? -1 : sign * a.localeCompare(b);
      return sign * (p - q);
    };
    const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]);
    rows.sort(([a], [b]) => compare(a, b));
    table.tBodies[0].append(...rows.map(([, row]) => row));
  };
  for (const table of all("table.sortable")) {
    all("thead th", table).forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => sort(table, column, header));
    });
  }

  const list = document.getElementById("changes");
  if (list) {
    const find = document.getElementById("find");
    const order = document.getElementById("order");
    const cards = [...list.children];
    const narrow = () => {
      const wanted = find.value.trim().toLowerCase();
      for (const card of cards) card.hidden = !card.dataset.name.toLowerCase().includes(wanted);
      const shown = cards.filter((card) => !card.hidden).length;
      document.getElementById("found").textContent = wanted ? `${shown} of ${cards.length} columns` : "";
    };
    find.addEventListener("input", narrow);
    order.addEventListener("change", () => {
      const key = order.value;
      const value = (card) => (key === "effect" ? -card.dataset.effect : Number(card.dataset[key]));
      const compare = key === "name" ? (a, b) => a.dataset.name.localeCompare(b.dataset.name) : (a, b) => value(a) - value(b);
      list.append(...cards.sort(compare));
    });
  }

  const copies = (button, text) => {
    const before = button.textContent;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        // Where a page may not copy, a reader can.
        const area = make("textarea", text);
        area.readOnly = true;
        area.rows = 8;
        button.parentElement.append(area);
        area.select();
      }
      setTimeout(() => (button.textContent = before), 2000);
    });
  };
  const text = document.getElementById("copy-text");
  if (text) {
    copies(text, data.summary);
    copies(document.getElementById("copy-markdown"), data.markdown);
  }

  const picture = document.getElementById("copy-picture");
  picture?.addEventListener("click", async () => {
    const before = picture.textContent;
    try {
      const bytes = Uint8Array.from(atob(data.picture), (letter) => letter.charCodeAt(0));
      const png = new Blob([bytes], { type: "image/png" });
      await navigator.clipboard.write([new ClipboardItem({ "image/png": png })]);
      picture.textContent = "Copied";
    } catch {
      // Where a page may not copy, a reader can.
      const shown = document.getElementById("picture") ?? make("img", "", picture.parentElement);
      shown.id = "picture";
      shown.alt = data.summary;
      shown.src = `data:image/png;base64,${data.picture}`;
    }
    setTimeout(() => (picture.textContent = before), 2000);
  });

  const unfold = () => {
    const aim = document.getElementById(location.hash.slice(1))?.closest("details");
    if (aim) aim.open = true; // where a browser does not do so by itself
  };
  addEventListener("hashchange", unfold);
  unfold();
  // Hundreds of columns would take hundreds of sheets.
  addEventListener("beforeprint", () => all("details:not(.change)").forEach((part) => (part.open = true)));

  for (const code of all(".facts code")) {
    const button = make("button", "Copy", code.parentElement);
    button.type = "button";
    button.className = "copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code); // where a page may not copy, a reader can
      }
    });
  }

  const map = document.getElementById("map");
  const points = data.points;
  if (!map || !points) return;
  const tip = document.getElementById("tip");
  const ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
  ring.setAttribute("class", "ring");
  ring.setAttribute("r", 7);
  map.setAttribute("tabindex", 0);
  const inOrder = points.at.map((_, k) => k).sort((a, b) => points.at[a][0] - points.at[b][0]);
  let current = -1;

  const hide = () => {
    tip.hidden = true;
    ring.remove();
    current = -1;
  };
  const fill = (k) => {
    tip.replaceChildren();
    const [x, y] = data.names;
    const what = points.files ? points.files[k] : `${points.sprite ? "Image" : "Row"} ${points.row[k]}`;
    make("b", `${what} of ${points.sample[k] === "X" ? x : y}`, tip);
    const w = points.witness[k];
    make("span", `witness ${w}: looks like ${w >= 0 ? x : y}`, tip);
    if (points.sprite) {
      const tile = make("div", "", tip);
      const [width, height] = points.tile;
      const zoom = Math.max(1, Math.round(84 / Math.max(width, height)));
      const lines = Math.ceil(points.row.length / points.across);
      const [left, top] = [k % points.across, Math.floor(k / points.across)];
      tile.className = "tile";
      tile.style.cssText = `width:${width * zoom}px;height:${height * zoom}px;
        background-size:${width * zoom * points.across}px ${height * zoom * lines}px;
        background-position:${-left * width * zoom}px ${-top * height * zoom}px`;
      tile.style.backgroundImage = `url(${points.sprite})`;
    } else {
      const list = make("dl", "", tip);
      points.columns.forEach((name, column) => {
        make("dt", name, list);
        make("dd", points.values[k][column], list);
      });
    }
  };
  const show = (k) => {
    if (k === current) return;
    current = k;
    const [x, y] = points.at[k];
    ring.setAttribute("cx", x);
    ring.setAttribute("cy", y);
    map.append(ring);
    fill(k);
    tip.hidden = false;
    const scale = map.clientWidth / map.viewBox.baseVal.width;
    const room = map.clientWidth - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(room, x * scale + 14))}px`;
    const below = y * scale + 14;
    tip.style.top = `${below + tip.offsetHeight > map.clientHeight ? y * scale - tip.offsetHeight - 14 : below}px`;
  };
  map.addEventListener("pointermove", (event) => {
    const box = map.getBoundingClientRect();
    const scale = map.viewBox.baseVal.width / box.width;
    const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    let [nearest, least] = [-1, 18 ** 2];
    points.at.forEach(([a, b], k) => {
      const distance = (a - x) ** 2 + (b - y) ** 2;
      if (distance < least) [nearest, least] = [k, distance];
    });
    if (nearest < 0) hide();
    else show(nearest);
  });
  map.addEventListener("pointerleave", hide);
  map.addEventListener("blur", hide);
  map.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") hide();
    if (!step) return;
    event.preventDefault();
    const place = current < 0 ? (step > 0 ? -1 : 0) : inOrder.indexOf(current);
    show(inOrder[(place + step + inOrder.length) % inOrder.length]);
  });
})();
