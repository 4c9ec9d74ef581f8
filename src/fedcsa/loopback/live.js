"use strict";
// Parts marked data-live are renewed every few seconds; the page works without this.
const stale = document.getElementById("stale");
const renew = async () => {
  const parts = [...document.querySelectorAll("[data-live]")];
  if (document.hidden || !parts.length) return;
  const answer = await fetch(location.href, { cache: "no-store" }).catch(() => null);
  stale.hidden = answer !== null && answer.status !== 403;
  if (answer === null || !answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of parts) {
    const other = fresh.getElementById(part.id);
    if (!other || other.innerHTML === part.innerHTML) continue;
    if (part.contains(document.activeElement)) continue; // nobody loses their place
    if (!other.hasAttribute("data-live")) part.removeAttribute("data-live");
    part.replaceChildren(...document.adoptNode(other).childNodes);
  }
};
setInterval(renew, 2000);
