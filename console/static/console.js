// Renews the page's parts in place, as server-sent events bring them. The server has rendered them.
"use strict";
(() => {
  const lost = document.getElementById("lost");
  const LOST = "The console does not answer: this page is as it was last. Is the command still running?";
  const AGAIN_MS = 2000;

  // The focused element of a part that is replaced is found again by its place among the part's focusable elements.
  const focusable = "a[href], button, input, select, summary, [tabindex='0']";

  function renewPart(old, html) {
    const fresh = document.createElement("template");
    fresh.innerHTML = html;
    if (old.innerHTML === fresh.innerHTML) return;
    const place = [...old.querySelectorAll(focusable)].indexOf(document.activeElement);
    const scrolled = [...old.querySelectorAll(".wide")].map((each) => each.scrollLeft);
    old.replaceChildren(fresh.content);
    old.querySelectorAll(".wide").forEach((each, index) => { each.scrollLeft = scrolled[index] || 0; });
    if (place >= 0) old.querySelectorAll(focusable)[place]?.focus({ preventScroll: true });
  }

  function say(text) {
    if (lost.textContent !== text) lost.textContent = text;
  }

  // A browser connects again by itself, unless it was refused; a hidden page asks the cluster for nothing.
  let stream = null;

  function listen() {
    stream = new EventSource(document.body.dataset.live);
    stream.addEventListener("part", (event) => {
      const part = JSON.parse(event.data);
      const old = document.getElementById(part.id);
      if (old) renewPart(old, part.html);
      say("");
    });
    stream.addEventListener("alive", () => say(""));
    stream.addEventListener("error", () => {
      say(LOST);
      if (stream && stream.readyState === EventSource.CLOSED) {
        stop();
        setTimeout(begin, AGAIN_MS);
      }
    });
  }

  function stop() {
    stream?.close();
    stream = null;
  }

  function begin() {
    if (!document.hidden && !stream) listen();
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : begin()));
  begin();
})();
