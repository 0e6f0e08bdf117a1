// Renews the page's parts in place. The server has rendered them; here is only which of them changed.
"use strict";
(() => {
  const pauseMs = Math.max(1, Number(document.body.dataset.refresh)) * 1000;
  const lost = document.getElementById("lost");

  // The focused element of a part that is replaced is found again by its place among the part's focusable elements.
  const focusable = "a[href], button, input, select, summary, [tabindex='0']";

  function renewPart(old, fresh) {
    if (old.innerHTML === fresh.innerHTML) return;
    const place = [...old.querySelectorAll(focusable)].indexOf(document.activeElement);
    const scrolled = [...old.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    old.replaceChildren(...document.importNode(fresh, true).childNodes);
    old.querySelectorAll(".scroll").forEach((each, index) => { each.scrollLeft = scrolled[index] || 0; });
    if (place >= 0) old.querySelectorAll(focusable)[place]?.focus({ preventScroll: true });
  }

  async function renew() {
    const answer = await fetch(location.href, { signal: AbortSignal.timeout(30000) });
    if (!answer.ok) throw new Error(`the console answered ${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const old of document.querySelectorAll("[data-live]")) {
      const fresh = page.getElementById(old.id);
      if (fresh) renewPart(old, fresh);
    }
  }

  async function tick() {
    if (!document.hidden) {
      try {
        await renew();
        if (lost.textContent) lost.textContent = "";
      } catch (error) {
        const text = "The console does not answer: this page is as it was last. Is the command still running?";
        if (lost.textContent !== text) lost.textContent = text;
      }
    }
    setTimeout(tick, pauseMs);
  }

  setTimeout(tick, pauseMs);
})();
