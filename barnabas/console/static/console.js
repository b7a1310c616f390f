// Live values, keys, and the streams that a person starts. Pages work without it.
// Always: text is set as text; nothing here makes HTML of it.

const POLL_MS = 2000;
const ROWS_MAX = 500;
const RELOAD_MS = 10000;
const PLACES = { o: "/", t: "/topics", g: "/groups", b: "/brokers", c: "/clients", e: "/events", x: "/transactions", d: "/dlq", l: "/delays", p: "/pipelines", s: "/sql" };

const notice = document.getElementById("notice");
function say(text) {
  notice.hidden = !text;
  notice.textContent = text;
}

// --- values that change ---

const source = document.body.dataset.live;
let tag = "";
let failures = 0;

// Other findings, members or rows: the page is loaded again, unless a person would lose something.
function changedOutline(outline) {
  if (outline === document.body.dataset.outline) return;
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
  const reading = document.querySelector("dialog[open], details[open]") || !getSelection().isCollapsed;
  if (typing || reading) say("This page has changed: press r to load it again.");
  else if (performance.now() > RELOAD_MS) location.reload();
  else tag = ""; // soon: a page that changes all the time can still be read
}

function put(id, text) {
  if (id === "outline") return changedOutline(text);
  const element = document.getElementById(id);
  if (!element) return;
  if (id === "points") {
    element.setAttribute("points", text);
  } else if (element.textContent !== text) {
    element.textContent = text;
    if (id === "title") return;
    element.classList.remove("changed");
    void element.getBoundingClientRect();
    element.classList.add("changed");
  }
}

async function poll() {
  if (document.visibilityState === "visible") {
    try {
      const answer = await fetch(source, { headers: tag ? { "If-None-Match": tag } : {} });
      if (answer.status === 200) {
        tag = answer.headers.get("etag") || "";
        for (const [id, text] of Object.entries(await answer.json())) put(id, text);
      }
      if (failures) say("");
      failures = 0;
    } catch {
      failures += 1;
      if (failures > 1) say("The console does not answer; trying again.");
    }
  }
  setTimeout(poll, Math.min(POLL_MS * (1 + failures), 30000));
}
if (source) setTimeout(poll, POLL_MS);

// --- keys ---

let going = false;
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (event.ctrlKey || event.metaKey || event.altKey) {
    if (typing && event.key === "Enter" && event.target.form) event.target.form.requestSubmit();
    return;
  }
  if (typing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (going && PLACES[event.key]) {
    going = false;
    location.href = PLACES[event.key];
    return;
  }
  going = event.key === "g";
  if (event.key === "/") {
    const field = document.getElementById("q");
    if (field) {
      event.preventDefault();
      field.focus();
      field.select();
    }
  } else if (event.key === "r") {
    location.reload();
  } else if (event.key === "?") {
    document.getElementById("keys")?.showModal();
  }
});

// --- streams: tail, scan ---

const stream = document.querySelector("[data-stream]");
if (stream) {
  const body = stream.querySelector("tbody");
  const stop = document.getElementById("stop");
  const progress = document.getElementById("progress");
  const abort = new AbortController();
  const newestFirst = stream.dataset.order === "newest";
  stop.addEventListener("click", () => abort.abort());

  const head = (columns) => {
    const row = document.createElement("tr");
    for (const column of columns) {
      const th = document.createElement("th");
      th.scope = "col";
      th.textContent = column;
      row.append(th);
    }
    stream.querySelector("thead").replaceChildren(row);
  };

  const show = (record) => {
    const row = document.createElement("tr");
    for (const cell of record.cells) {
      const td = document.createElement("td");
      if (cell.class) td.className = cell.class;
      if (cell.href) {
        const a = document.createElement("a");
        a.href = cell.href;
        a.textContent = cell.text;
        td.append(a);
      } else if (cell.class === "value" || cell.class === "key") {
        const span = document.createElement("span");
        span.textContent = cell.text;
        td.append(span);
      } else {
        td.textContent = cell.text;
      }
      row.append(td);
    }
    if (newestFirst) body.prepend(row);
    else body.append(row);
    while (body.rows.length > ROWS_MAX) (newestFirst ? body.lastElementChild : body.firstElementChild).remove();
  };

  const read = async () => {
    try {
      const answer = await fetch(stream.dataset.stream, { signal: abort.signal });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let left = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const lines = (left + value).split("\n");
        left = lines.pop();
        for (const line of lines) {
          if (!line) continue;
          const item = JSON.parse(line);
          if (item.progress) progress.textContent = item.progress;
          if (item.note) document.getElementById("note").textContent = item.note;
          if (item.columns) head(item.columns);
          if (item.cells) show(item);
        }
      }
    } catch (problem) {
      progress.textContent = abort.signal.aborted ? `Stopped. ${progress.textContent}` : `Failed: ${problem.message}`;
    }
    stop.hidden = true;
  };
  read();
}
