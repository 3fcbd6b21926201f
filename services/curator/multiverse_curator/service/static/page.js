// Asks for the part of a job's page that moves, until the job has ended.
"use strict";

const EVERY_MS = 1000;

async function fetched(address, selector) {
  const response = await fetch(address);
  if (!response.ok) return null;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  return page.querySelector(selector);
}

async function follow() {
  const shown = document.getElementById("progress");
  if (!shown || !["running", "paused"].includes(shown.dataset.state)) return;
  try {
    const next = await fetched(location.pathname + "/progress", "#progress");
    if (next && next.dataset.state !== shown.dataset.state) {
      // other actions, other samples
      document.querySelector("main").replaceWith(await fetched(location.href, "main"));
    } else if (next) {
      shown.replaceWith(next);
    }
  } catch {
    // the service is away for a moment
  }
  setTimeout(follow, EVERY_MS);
}

setTimeout(follow, EVERY_MS);
