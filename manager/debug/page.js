"use strict";
// The page asks for itself every two seconds, and takes over what has changed. Without
// this script all links and the form work as well.
(() => {
  const interval = 2000, patience = 10000, pace = 300; // milliseconds
  const live = ["program", "causes", "summary", "objects"].map((id) => document.getElementById(id));
  const form = document.querySelector("form");
  const connection = document.getElementById("connection");
  const pause = document.getElementById("pause");
  let paused = false, lost = false, timer = 0, typing = 0, request = null;

  // morph makes the element old equal to fresh. It keeps elements that stay, and with
  // them the focus, the scroll position, a selection and what is unfolded.
  function morph(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
    if (old.nodeType !== Node.ELEMENT_NODE) { old.data = fresh.data; return; }
    for (const { name } of [...old.attributes]) {
      if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    const byID = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
    let next = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const same = child.id ? byID.get(child.id) : next && !next.id ? next : null;
      if (!same) { old.insertBefore(child, next); continue; }
      if (same === next) next = next.nextSibling; else old.insertBefore(same, next);
      morph(same, child);
    }
    while (next) {
      const after = next.nextSibling;
      next.remove();
      next = after;
    }
  }

  function say(text, isLost) {
    lost = isLost;
    connection.classList.toggle("lost", lost);
    for (const part of live) part.classList.toggle("stale", lost);
    if (connection.textContent !== text) connection.textContent = text; // read aloud only if it changes
  }

  function fail(text) { if (!lost) say(`${text} since ${new Date().toLocaleTimeString()}. Trying again.`, true); }

  async function refresh() {
    clearTimeout(timer);
    request?.abort();
    const own = request = new AbortController();
    const late = setTimeout(() => own.abort(), patience);
    try {
      const response = await fetch(location.href, { cache: "no-store", headers: { Accept: "text/html" }, signal: own.signal });
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
      if (own !== request) return;
      if (!response.ok || !live.every((part) => fresh.getElementById(part.id))) {
        fail(`The answer is not this page (${response.status} ${response.statusText})`);
      } else {
        const focus = document.activeElement;
        for (const part of live) morph(part, document.adoptNode(fresh.getElementById(part.id)));
        if (focus !== document.activeElement && focus.isConnected) focus.focus({ preventScroll: true });
        document.title = fresh.title;
        say(paused ? "Paused" : "Live", false);
      }
    } catch (error) {
      if (own === request) fail("Connection to this process lost");
    } finally {
      clearTimeout(late);
    }
    if (own === request && !paused && !document.hidden) timer = setTimeout(refresh, interval);
  }

  // show shows another query without loading the page.
  function show(query, push) {
    clearTimeout(typing);
    history[push ? "pushState" : "replaceState"](null, "", query);
    refresh();
  }

  function fillForm() {
    const query = new URLSearchParams(location.search);
    for (const field of form.elements) if (field.name) field.value = query.get(field.name) ?? "";
  }

  function submit(push) {
    const query = new URLSearchParams(new FormData(form));
    for (const [name, value] of [...query]) if (!value) query.delete(name);
    show(`?${query}`, push);
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-live]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    show(link.href, true);
    fillForm();
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); submit(true); });
  form.addEventListener("input", () => { // not a request for each key
    clearTimeout(typing);
    typing = setTimeout(submit, pace, false);
  });
  addEventListener("popstate", () => { clearTimeout(typing); fillForm(); refresh(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && !paused) refresh(); });
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", paused);
    if (!paused) return refresh();
    clearTimeout(timer);
    say("Paused", false);
  });
  pause.hidden = false;
  document.getElementById("apply").hidden = true;
  timer = setTimeout(refresh, interval);
  say("Live", false);
})();
